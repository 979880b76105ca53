"""The program after any pass, out of a dump with data: read again, taken through the passes that are left, and run."""

from __future__ import annotations

import json
import os
import tokenize
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clgraph.compilation.compiler import Compiler
from clgraph.core.layout import Layout
from clgraph.engines.opening import load_extensions, options_of
from clgraph.errors import InternalError, ModelError, ProgramError
from clgraph.graph.batch_slices import whole_shape
from clgraph.graph.buffer import Arena, Buffer
from clgraph.graph.check import check
from clgraph.graph.integers import Integers
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program, Stage
from clgraph.graph.serial import Json, decode, well_formed
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.model.specialisations import PassRecord, Shapes, Specialisation, Values
from clgraph.network.workspace import Workspace
from clgraph.ops import primitive_of
from clgraph.passes.base import Context, PassManager
from clgraph.passes.constants.copying import copy_program
from clgraph.passes.memory.sharing import WouldShare
from clgraph.passes.observers import Time
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.selection import InPlace
from clgraph.selector.choose import Choice, HostReference
from clgraph.selector.implementation import IMPLEMENTATIONS

_OTHERS = {c.name: c for c in (InPlace, HostReference)}


@dataclass(frozen=True)
class DumpedProgram:
    """A program out of a dump.

    Attributes:
        program: As it was written, after so many *passes* of the pipeline.
        compiler: For its devices.
    """

    file: Path
    program: Program
    passes: int
    compiler: Compiler

    @property
    def topology(self) -> Topology:
        """Its inputs and outputs, with nothing between."""
        topology = Topology()
        for value in self.program.inputs:
            topology.input(value.name, whole_shape(self.program, value), value.layout.dtype)
        topology.outputs = [(name, value.name) for name, value in self.program.outputs]
        return topology

    def specialise(
        self,
        topology: Topology | None = None,
        shapes: Shapes | None = None,
        values: Values | None = None,
        workspace: Workspace | None = None,
    ) -> Specialisation:
        """Return the program taken through the passes that are left; its shapes are fixed.

        Raises:
            ModelError: It breaks what passes rely on.
        """
        made, clock, compiler = copy_program(self.program), Time(), self.compiler
        with _runnable(self.file):
            left = default_pipeline()[self.passes :]
            PassManager(left, [clock], first=self.passes, begin=made.stage).run(made, compiler.context)
            network = None if compiler.runner is None else compiler.runner.network(made, workspace)
        records = tuple(PassRecord(*row) for row in clock.rows)
        return Specialisation(made, network, records, compiler.context.devices, compiler.options)


def read_dump(
    path: str | os.PathLike[str],
    device: str | int = "auto",
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    config: Mapping[str, Any] | None = None,
) -> DumpedProgram:
    """Return the program in a dump. Takes and raises what :func:`load_dump` does."""
    file = Path(path)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{file} cannot be read as a dump: {error}") from error
    if not isinstance(data, dict) or "state" not in data:
        raise ModelError(f"{file} holds no program with data; dump with --dump-data, or CLGRAPH_DUMP_DATA=1")
    state = data["state"]
    with well_formed(str(file)):
        program = _read(state, file.parent)
        names = [str(p) for p in dict.fromkeys(n.placement for n in program) if p is not None]
    options = options_of(names[0] if names and device == "auto" else device, threads, cache_dir, config)
    load_extensions(options)
    others = tuple(name for name in names if name != options.device)
    compiler = Compiler(options.with_(placement_fallback=(*options.placement_fallback, *others)))
    with _runnable(file):
        _choose(program, state, compiler.context)
        check(program)
        return DumpedProgram(file, program, int(data["pass"]) + 1, compiler)


def load_dump(
    path: str | os.PathLike[str],
    device: str | int = "auto",
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Model:
    """Return a model of the program in a dump, ``NN_name.json``, that was written with data.

    The passes behind the one that it was written after run now. From partition on a program has its devices, which must
    be there under their names.

    Args:
        path: A file that ``CLGRAPH_DUMP_GRAPHS`` with ``CLGRAPH_DUMP_DATA=1``, or ``--dump-graphs`` with
            ``--dump-data``, has written.
        device, threads, cache_dir, config: As in :func:`clgraph.compile`; the device of the dump by default.

    Raises:
        ModelError: It is no dump, was written without data, or a file of its constants is missing.
        DeviceError: A device of it is not there.
    """
    dumped = read_dump(path, device, threads, cache_dir, config)
    model = Model(dumped.topology, dumped.compiler.context.default, dumped.specialise)
    model.prepare()
    return model


@contextmanager
def _runnable(file: Path) -> Iterator[None]:
    """Raise ``ModelError`` where a program that was read from *file* breaks what passes rely on."""
    try:
        with well_formed(str(file)):
            yield
    except ProgramError as error:
        raise ModelError(f"{file} holds no program that can be run: {error}") from error
    except InternalError as error:
        raise ModelError(f"{file} is damaged, or what reads it has a fault: {error}") from error


def _read(state: Json, folder: Path) -> Program:
    def constant(digest: str) -> Array:
        try:
            return np.asarray(np.lib.format.open_memmap(folder / "constants" / f"{digest}.npy", mode="r"))
        except (OSError, ValueError, SyntaxError, TypeError, tokenize.TokenError) as error:
            raise ModelError(f"a constant of the dump is missing or damaged: {error}") from error

    rows = state["buffers"]
    buffers = [Buffer(name, size, at, begin, end, {}, where) for name, size, at, begin, end, where, _ in rows]
    for buffer, row in zip(buffers, rows, strict=True):
        buffer.conflicts = {buffers[i]: None for i in row[6]}
    values = []
    for name, layout, digest, buffer, offset, integers in state["values"]:
        found = decode(layout, primitive_of)
        array = None if digest is None else constant(digest)
        if not isinstance(found, Layout) or (array is not None and not _holds(array, found)):
            raise ModelError(f"value {name!r} of the dump is {found}, which does not fit its data")
        values.append(Value(str(name), found, constant=array))
        values[-1].buffer, values[-1].offset = None if buffer is None else buffers[buffer], offset
        if integers is not None:
            data, scale, zero, axis = integers
            values[-1].integers = Integers(
                constant(data), constant(scale), None if zero is None else constant(zero), axis
            )
    nodes = []
    for name, primitive, reads, makes, arity, fused, origin, annotation, placement, partitioned_by, scratch, _ in state[
        "nodes"
    ]:
        node = Node(
            name,
            decode(primitive, primitive_of),
            tuple(values[i] for i in reads),
            tuple(values[i] for i in makes),
            arity,
            decode(fused, primitive_of),
            origin=tuple(origin),
        )
        node.annotation, node.placement, node.partitioned_by = annotation, placement, partitioned_by
        node.scratch = tuple(buffers[i] for i in scratch)
        nodes.append(node)
    program = Program([values[i] for i in state["inputs"]], [(n, values[i]) for n, i in state["outputs"]], nodes)
    program.stage, program.batch_slices = Stage[state["stage"]], state["parts"]
    program.arenas = {placement: Arena(*sizes) for placement, sizes in state["arenas"].items()}
    program.notes = dict(state["notes"])
    return program


def _holds(array: Array, layout: Layout) -> bool:
    """Return whether *array* can be the data of *layout*: its elements in order, or its memory as it is."""
    return array.dtype == layout.dtype.numpy and array.size in (layout.count, layout.span)


def _choose(program: Program, state: Json, context: Context) -> None:
    """Give the nodes the choices they had."""
    for node, row in zip(program, state["nodes"], strict=True):
        if row[-1] is not None:
            name, seconds, because, wish = row[-1]
            implementation = WouldShare if wish else _OTHERS.get(name) or IMPLEMENTATIONS[name]
            node.choice = Choice(context.query(node), implementation, decode(seconds, primitive_of), because)
