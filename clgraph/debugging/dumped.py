"""The program after any pass, out of a dump with data: read again, taken through the passes that are left, and run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clgraph.compilation.compiler import Compiler
from clgraph.core.well_formed import well_formed
from clgraph.engines.opening import load_extensions, options_of
from clgraph.errors import InternalError, ModelError, ProgramError
from clgraph.graph.batch_slices import whole_shape
from clgraph.graph.check import check
from clgraph.graph.primitive import primitive_of
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.model.specialisation import PassRecord, Shapes, Specialisation, Values
from clgraph.network.workspace import Workspace
from clgraph.passes.constants.copying import copy_program
from clgraph.passes.manager import PassManager
from clgraph.passes.observers import Time
from clgraph.passes.pipeline import default_pipeline
from clgraph.saved.constant_files import ConstantFiles
from clgraph.saved.programs import decode_program, placements


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
            PassManager(left, [clock], first=self.passes, begin=made.milestone).run(made, compiler.context)
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
    with _runnable(file):
        names = placements(state)
    options = options_of(names[0] if names and device == "auto" else device, threads, cache_dir, config)
    load_extensions(options)
    others = tuple(name for name in names if name != options.device)
    compiler = Compiler(options.with_(placement_fallback=(*options.placement_fallback, *others)))
    with _runnable(file):
        program = decode_program(state, ConstantFiles(file.parent).array, compiler.context.devices, primitive_of)
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
        ModelError: It is not a dump, was written without data, or a file of its constants is missing.
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
