"""What a model will take of a device's memory, and the largest batch within a limit: known without running anything."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clgraph.compilation.batches import LARGEST_BATCH, common_batch, largest_batch, with_batch
from clgraph.compilation.compiler import Compiler
from clgraph.compilation.sources import OpenShapes, images_of, read_source
from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.engines.opening import load_extensions, options_of
from clgraph.errors import ClgraphError, DeviceMemoryError, InputError, UnsupportedError
from clgraph.graph.faults import faults
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.stages.split import needs_stages
from clgraph.network.memory_need import MemoryNeed, memory_needs, spelled
from clgraph.ops.preprocess import lone_images
from clgraph.passes.reference import run_reference
from clgraph.saved.container import is_saved
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.frontend.files import Source
    from clgraph.ops.preprocess import Preprocess


@frozen
class Estimate:
    """The device memory that a model takes; printing it gives a few lines.

    Attributes:
        shapes: Of the inputs.
        needs: What the program takes of each device.
        weights: Bytes of the constants as the model has them.
        packed: Bytes of those of them that kernels read in another form.
        inputs, outputs: Bytes of the arrays that a run is given and returns, which are the caller's.
        compiling: By device, bytes at the time that most are taken while the constants are computed.
        limit: Bytes of each device that a batch has to keep within; 0 for none.
        batch: Entries of the batch in ``shapes``; 0 where the inputs have none in common.
        largest_batch: One that keeps within the limit, while one entry more does not: 0 for none, 65536 for that
            or more, ``None`` where it is not known, and ``why`` says why.
    """

    shapes: Mapping[str, Shape]
    needs: tuple[MemoryNeed, ...]
    weights: int
    packed: int
    inputs: int
    outputs: int
    compiling: Mapping[str, int]
    limit: int = 0
    batch: int = 0
    largest_batch: int | None = None
    why: str = ""

    @property
    def total(self) -> int:
        """Bytes of all devices."""
        return sum(need.total for need in self.needs)

    def __str__(self) -> str:
        lines = [
            f"shapes        {', '.join(f'{name} {list(shape)}' for name, shape in self.shapes.items()) or 'no inputs'}",
            *(f"takes         {need}" for need in self.needs),
            *(f"compiling     {spelled(nbytes)} on {name}" for name, nbytes in self.compiling.items()),
            f"weights       {spelled(self.weights)} in the model, {spelled(self.packed)} packed for kernels",
            f"a run         is given {spelled(self.inputs)}, returns {spelled(self.outputs)}",
        ]
        if self.largest_batch is not None or self.why:
            more = " or more" if self.largest_batch == LARGEST_BATCH else ""
            found = self.why if self.largest_batch is None else f"{self.largest_batch}{more}"
            lines.append(f"largest batch {found}{f' within {spelled(self.limit)}' if self.limit else ''}")
        return "\n".join(lines)


@faults("estimating the memory of the model")
def estimate(
    source: Source | Topology,
    device: str | int = "auto",
    shapes: OpenShapes | None = None,
    outputs: Sequence[str] | None = None,
    precision: str | None = None,
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    placement: Mapping[str, str] | None = None,
    placement_fallback: Sequence[str] | None = None,
    config: Mapping[str, Any] | None = None,
    weights: str | None = None,
    *,
    memory_limit: int | str | None = None,
    preprocess: Preprocess | Mapping[str, Preprocess] | None = None,
) -> Estimate:
    """Return what ``clgraph.compile`` with the same arguments would take of a device's memory; nothing is allocated.

    Args:
        device: As for :func:`clgraph.compile`: only what is known about it counts. ``null:avx2`` stands for PoCL on a
            CPU with that instruction set, ``null:FILE.json`` for what ``clgraph devices --json`` has listed on another
            machine.
        shapes: Of all inputs whose sizes are open.
        memory_limit: What the largest batch keeps within; the device's memory by default, where that is known.
        source, outputs, precision, threads, cache_dir, placement, placement_fallback, config, weights, preprocess:
            As for :func:`clgraph.compile`.

    Raises:
        InputError: A size is open.
        UnsupportedError: The model runs in stages: what they take depends on data.
        ClgraphError: As :func:`clgraph.compile`.
    """
    further = {"placement": placement, "placement_fallback": placement_fallback, **dict(config or {})}
    options = options_of(device, threads, cache_dir, further).with_(
        precision=precision, weights=weights, memory_limit=memory_limit
    )
    load_extensions(options)
    if isinstance(source, str | os.PathLike) and is_saved(Path(source)):
        from clgraph.compilation.load import saved_topology

        source = saved_topology(source, options)
    topology = read_source(source, outputs, shapes, images_of(preprocess))
    if needs_stages(topology):
        raise UnsupportedError(
            "what the model takes depends on data, by which its stages are compiled while it runs: give it a "
            "memory_limit, which each stage keeps, and look at `clgraph compile --report memory`"
        )
    if opened := [s for s in topology.inputs.values() if not s.is_fixed]:
        raise InputError(f"input {opened[0]} has dynamic dimensions: give the sizes that the estimate is for (shapes)")
    weigher = Weigher(options)
    return weighed(topology, weigher, options.memory_limit or weigher.memory)


class Weigher:
    """Compiles for devices without using them, and records the memory that the programs would take.

    Attributes:
        compiler: What compiles; nothing that it compiles is run but constants, by the references.
        compiling: By device, the most bytes that were taken at a time while constants were computed.
    """

    def __init__(self, options: Settings) -> None:
        """Look up the devices; raises as :class:`Compiler`."""
        self.compiler = Compiler(options.with_(memory_limit=0), dry=True)
        self.compiler.context = replace(self.compiler.context, execute=self._compute)
        self._devices = self.compiler.context.devices
        self.compiling: dict[str, int] = {}
        self._computed = 0

    @property
    def memory(self) -> int:
        """Bytes of the device that has least; 0 where nobody has said how many."""
        return min((i.global_bytes for i in self._devices.values() if i.kind != "host"), default=0)

    def weigh(self, topology: Topology) -> tuple[Program, tuple[MemoryNeed, ...]]:
        """Return the program of a *topology* of fixed shapes, and what it takes; raises as :func:`estimate`."""
        program = self.compiler.planned(topology, shapes_of(topology))
        needs = memory_needs(program, self._devices)
        for need in needs:
            self._note(need.placement, need.total)
        return program, needs

    def most(self, topology: Topology) -> float:
        """Return the most bytes that *topology* takes of a device; raises as :func:`estimate`."""
        try:
            return max((need.total for need in self.weigh(topology)[1]), default=0)
        except DeviceMemoryError:  # a tensor of it is larger than the device allocates
            return float("inf")

    def _compute(self, program: Program, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run a program of constants by the references; note what it would take beside those before it."""
        for need in memory_needs(program, self._devices):
            self._note(need.placement, need.total + self._computed)
        results = run_reference(program, feeds)
        self._computed += sum(array.nbytes for array in results.values())
        return results

    def _note(self, placement: str, nbytes: int) -> None:
        self.compiling[placement] = max(nbytes, self.compiling.get(placement, 0))


def weighed(topology: Topology, weigher: Weigher, limit: int) -> Estimate:
    """Return what *topology* takes by *weigher*, and the largest batch within *limit* bytes, 0 for any number."""
    program, needs = weigher.weigh(topology)
    compiling, shapes = dict(weigher.compiling), shapes_of(topology)
    own = {id(array) for array in topology.constants.values()}
    constants = {id(v.constant): v.layout.nbytes for n in program for v in n.inputs if v.constant is not None}
    alone = lone_images(topology)
    batch = 0 if alone else common_batch(shapes)
    largest, why = None, ""
    if alone:
        why = f"unknown: the images of {alone[0]!r} are fed one by one"
    elif not batch:
        why = "unknown: the inputs have no first size in common"
    elif limit and needs:
        try:
            largest = largest_batch(lambda entries: weigher.most(with_batch(topology, shapes, entries)), limit, batch)
        except ClgraphError as error:
            why = f"unknown: the model takes no other batch than {batch}: {error}"
    return Estimate(
        shapes,
        needs,
        weights=sum(array.nbytes for array in topology.constants.values()),
        packed=sum(nbytes for known, nbytes in constants.items() if known not in own),
        inputs=sum(program.batch_slices * v.layout.nbytes for v in program.inputs),
        outputs=sum(program.batch_slices * v.layout.nbytes for _, v in program.outputs),
        compiling=compiling,
        limit=limit,
        batch=batch,
        largest_batch=largest,
        why=why,
    )


def shapes_of(topology: Topology) -> dict[str, Shape]:
    """Return the shapes of the inputs of a topology that has no open ones."""
    return {name: topology.shape_of(name, {}) for name in topology.inputs}
