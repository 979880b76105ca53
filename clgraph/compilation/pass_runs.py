"""Runs of all passes over programs: what the options disable, check and dump, and the record of each pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from clgraph.core.layout import Shape
from clgraph.errors import OptionError
from clgraph.families.notes import NOTE
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.specialisation import PassRecord, Shapes
from clgraph.passes.base import Context
from clgraph.passes.manager import Observer, PassManager, check_names
from clgraph.passes.observers import Dump, Tell, Time
from clgraph.passes.pipeline import default_pipeline
from clgraph.settings import Settings


class PassRuns:
    """Runs the passes of the pipeline under given options."""

    def __init__(self, options: Settings, observers: Sequence[Observer]) -> None:
        """Begin; *observers* are told of every pass, too. Raises ``OptionError`` for a pass that there is not."""
        check_names(default_pipeline(), options.disable_passes, options.stop_after)
        self._options, self._observers, self._count = options, observers, 0

    def run(
        self,
        program: Program,
        shapes: Shapes,
        topology: Topology,
        context: Context,
        verifying: Sequence[Observer] = (),
    ) -> tuple[PassRecord, ...]:
        """Run all passes over a built program; return what each did."""
        clock, options, passes = Time(), self._options, default_pipeline()
        observers = [
            Tell(len(passes) - 1),
            clock,
            *self._dumps(shapes, topology.label),
            *verifying,
            *self._observers,
        ]
        PassManager(passes, observers, disabled=options.disable_passes, stop_after=options.stop_after).run(
            program, replace(context, op_types=topology.op_types)
        )
        self._count += 1
        return tuple(PassRecord(*row) for row in clock.rows)

    def list_member(self, topology: Topology, sizes: Sequence[Shape], program: Program) -> None:
        """Where programs are dumped, add a line to the list of what was bound: they are dumped of representatives."""
        if self._options.dump_graphs is None:
            return
        folder = self._options.dump_graphs / topology.label
        try:
            with (folder / "members.txt").open("a", encoding="utf-8") as file:
                file.write(f"{', '.join(map(str, map(list, sizes)))}: {program.notes[NOTE]}\n")
        except OSError as error:
            raise OptionError(f"the programs cannot be written to {folder}: {error.strerror or error}") from error

    def _dumps(self, shapes: Shapes, label: str) -> list[Observer]:
        """Return what the options ask for: dumps of the first program in their folder, of others and stages below."""
        if self._options.dump_graphs is None:
            return []
        sizes = "_".join("x".join(map(str, shape)) or "scalar" for shape in shapes.values())
        folder = self._options.dump_graphs / label
        try:
            return [self._dump(folder / sizes if self._count else folder)]
        except OSError as error:
            raise OptionError(f"the programs cannot be written to {folder}: {error.strerror or error}") from error

    def _dump(self, folder: Path) -> Dump:
        if not self._options.dump_data:
            return Dump(folder)
        from clgraph.saved.constant_files import ConstantFiles
        from clgraph.saved.programs import encode_program

        return Dump(folder, partial(encode_program, add=ConstantFiles(folder).add))
