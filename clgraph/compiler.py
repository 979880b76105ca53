"""The one call behind ``clgraph.compile``: a model or topology and a device make a :class:`Model`."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from clgraph.core.mapped import files_of
from clgraph.core.registry import load_plugins
from clgraph.engines import device_infos, open_engines, options_of, placement_of, without_collection
from clgraph.errors import ModelError, OptionError
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Dimension, Topology
from clgraph.model import Model
from clgraph.network.network import Network
from clgraph.network.steps import texts
from clgraph.network.workspace import Workspace
from clgraph.ops.convolution_winograd_tiles import ConvWinograd
from clgraph.passes.base import Context, Observer, PassManager
from clgraph.passes.batch import in_parts
from clgraph.passes.observers import Dump, Time, Verify, VerifyNumbers
from clgraph.passes.partition import unused_patterns
from clgraph.passes.pipeline import default_pipeline
from clgraph.runtime.engine import Engine
from clgraph.runtime.host import HostEngine
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.query import DeviceInfo
from clgraph.settings import Settings
from clgraph.specialisations import PassRecord, Shapes, Specialisation, Values
from clgraph.stages.split import needs_stages

if TYPE_CHECKING:
    from clgraph.frontend.files import Source

_log = logging.getLogger(__name__)


@without_collection()
def compile_model(
    source: Source | Topology,
    device: str | int = "auto",
    shapes: Mapping[str, Sequence[Dimension]] | None = None,
    outputs: Sequence[str] | None = None,
    precision: str | None = None,
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    placement: Mapping[str, str] | None = None,
    placement_fallback: Sequence[str] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Model:
    """Compile an ONNX model, or a topology written by hand, for a device.

    A model whose input shapes are fixed, by itself or by *shapes*, is compiled now; another one at the first run with
    each set of shapes, or by :meth:`Model.prepare`.

    Args:
        source: Path of an ONNX file, its bytes, a ``ModelProto``, or a :class:`Topology`. Large weights of a file stay
            mapped: it may be removed or replaced while the model is in use; when it is written to or cut, runs and
            compilations that begin later raise ``ModelError``.
        device: ``auto``, ``cpu``, ``gpu``, ``host``, ``null`` (a dry run without OpenCL), ``pocl:0``, an index or a
            part of the name; ``clgraph devices`` lists what there is. ``auto`` leaves it to ``CLGRAPH_DEVICE``.
        shapes: Shapes of inputs by name, theirs from now on; a dimension is a size, or a name or ``None`` where it
            stays open, as in ``{"x": ("batch", 3, 640, 640)}``. They cannot contradict declared sizes.
        outputs: The results to compute, by name: outputs of the model, or any value in it. All outputs by default.
        precision: ``f32``; ``f16`` stores values between operators and weights in half precision, but for the nodes
            that ``config={"keep_f32": [...]}`` names, and adds up in single; ``auto`` does so on GPUs, where the range
            suffices. Inputs and outputs keep their types. ``None`` leaves it to ``CLGRAPH_PRECISION``.
        threads: Worker threads on a CPU device; all usable cores by default.
        cache_dir: Folder for compiled kernels; the user's cache folder by default.
        placement: Devices of parts of the model: of the nodes whose annotation, name, ONNX operator type or kind fits a
            pattern (``{"encoder*": "gpu:0", "head": "cpu"}``); the first pattern that fits counts. The others run on
            *device*; several, as ``"gpu:0,pocl:0"``, share them out by estimated time.
        placement_fallback: Devices that may run what its own device refuses; without, that is an error.
        config: Further options by name, as in :class:`clgraph.settings.Settings`.

    Raises:
        ModelError: The file cannot be read, or what it holds is not a well-formed graph.
        UnsupportedError: Lists what of the model clgraph does not have.
        DeviceError: There is no such device; lists those there are.
        ClgraphError: Anything else that is wrong with the model, its shapes or the options.
    """
    further = {"placement": placement, "placement_fallback": placement_fallback, **dict(config or {})}
    options = options_of(device, threads, cache_dir, further).with_(precision=precision)
    load_plugins(options.plugins)
    topology = source if isinstance(source, Topology) else _load(source)
    if outputs is not None:
        topology = _narrow(topology, outputs)
    if not topology.outputs:
        raise ModelError("there is nothing to compute: the model has no outputs; Topology.output(name) makes one")
    if unused := unused_patterns(topology, [pattern for pattern, _ in options.placement]):
        raise OptionError(f"placement: {unused[0]!r} fits no annotation, node name or operator of the model")
    if shapes:
        topology = topology.with_shapes(shapes)
    compiler = Compiler(options)
    if needs_stages(topology):
        return _staged(topology, compiler)
    model = Model(topology, compiler.context.default, compiler.specialise)
    model.prepare_fixed()
    return model


@dataclass
class Compiler:
    """Compiles topologies for one device; its engines and kernels are shared by everything that it compiles.

    Attributes:
        options: The options in force.
        observers: What else is told about every pass.
        engines: What runs the nodes of each placement; empty for a dry run.
        context: What passes may look at.
    """

    options: Settings
    observers: Sequence[Observer] = ()
    engines: dict[str, Engine | HostEngine] = field(init=False)
    context: Context = field(init=False)
    _made: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Open the device.

        Raises:
            DeviceError: There is no such device.
            OptionError: What is denied is no implementation.
        """
        options = self.options
        if unknown := sorted(options.deny_kernels - set(IMPLEMENTATIONS)):
            raise OptionError(f"no implementation is called {unknown[0]!r}, so that it cannot be denied")
        runs = options.device != "null"
        self.engines = open_engines(options) if runs else {}
        self.context = Context(
            devices=device_infos(self.engines, options) or {"null": DeviceInfo()},
            **(placement_of(options) if runs else {}),
            out_of_order=options.out_of_order,
            precision=options.precision,
            keep_f32=options.keep_f32,
            forced=dict(options.force_kernels),
            denied=options.deny_kernels if options.winograd else options.deny_kernels | {ConvWinograd.name},
            execute=self._execute if runs else None,
            build=self._build if runs else None,
        )

    @without_collection()
    def specialise(
        self, topology: Topology, shapes: Shapes, values: Values | None = None, workspace: Workspace | None = None
    ) -> Specialisation:
        """Return *topology* compiled for input *shapes* and the *values* of inputs that decide sizes.

        Its network has its memory in *workspace*.

        Raises:
            ClgraphError: Whatever is wrong with them or with the options.
        """
        files = files_of(topology.constants.values())
        for file in files:
            file.check()
        program = topology.build(shapes, values)
        if self.options.split_batch:
            program = in_parts(program, self.context.default)
        self.context.packed.register(topology.constants.values())
        self.context.packed.keeps_steps = not all(s.is_fixed for s in topology.inputs.values())
        clock = Time()
        observers = [clock, *self._observers(shapes), *self.observers]
        options = self.options
        PassManager(default_pipeline(), observers, disabled=options.disable_passes, stop_after=options.stop_after).run(
            program, replace(self.context, op_types=topology.op_types)
        )
        for node in program:
            _log.debug("%s on %s: %s: %s", node.name, node.placement, node.choice, node.primitive)
        if lost := sorted(set(self.context.forced) - {node.name for node in program}):
            raise OptionError(f"no node of the compiled program is called {lost[0]!r}, so that no kernel can be forced")
        network = None if self.context.execute is None else self._network(program, workspace)
        for file in files:
            file.check()
        self._made += 1
        records = tuple(PassRecord(*row) for row in clock.rows)
        return Specialisation(program, network, records, self.context.devices, options)

    def _observers(self, shapes: Shapes) -> list[Observer]:
        """Return what the options ask for: dumps of the first program in their folder, of others below it."""
        found: list[Observer] = []
        folder = self.options.dump_graphs
        if folder is not None:
            label = "_".join("x".join(map(str, shape)) or "scalar" for shape in shapes.values())
            try:
                found.append(Dump(folder / label if self._made else folder))
            except OSError as error:
                raise OptionError(f"the programs cannot be written to {folder}: {error}") from error
        if self.options.verify_passes:
            found += [Verify(), VerifyNumbers(self.context)]
        return found

    def _execute(self, program: Program, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run a planned program once."""
        return self._network(program).run_once(feeds)

    def _network(self, program: Program, workspace: Workspace | None = None) -> Network:
        options = self.options
        return Network(program, self.engines, options.executor, poison=options.poison, workspace=workspace)

    def _build(self, program: Program) -> int:
        """Build every kernel text of a planned program; return how many were new."""
        engines = {name: e for name, e in self.engines.items() if isinstance(e, Engine)}
        return sum(
            engines[placement].build(text, what, library=library)
            for (placement, text), (what, library) in texts(program, engines).items()
        )


def _load(source: Source) -> Topology:
    from clgraph.frontend.onnx_loader import load_model

    return load_model(source)


def _staged(topology: Topology, compiler: Compiler) -> Model:
    """Return the model of a topology whose shapes depend on data, or that holds control flow."""
    from clgraph.stages.model import StagedModel

    strict, dry = compiler.options.strict, compiler.context.execute is None
    model = StagedModel(topology, compiler.context.default, compiler.specialise, strict=strict, dry=dry)
    model.prepare_fixed()
    return model


def _narrow(topology: Topology, outputs: Sequence[str]) -> Topology:
    """Return *topology* with only these results."""
    made = dict(topology.outputs)
    known = {*topology.inputs, *topology.constants, *(name for layer in topology.layers for name in layer.outputs)}
    if unknown := [name for name in outputs if name not in made and name not in known]:
        raise OptionError(f"the model makes nothing called {unknown[0]!r}; its outputs are {', '.join(made)}")
    return replace(topology, outputs=[(name, made.get(name, name)) for name in outputs])
