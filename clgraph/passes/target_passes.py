"""Passes that a package adds for its devices. clDNN's counterparts are written into the pipeline, device by device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from clgraph.core.registry import Registry
from clgraph.errors import ProgramError
from clgraph.graph.check import check
from clgraph.graph.program import Program, Stage
from clgraph.passes.base import Context, Pass

TARGET_PASSES: Registry[str, Pass] = Registry("target pass")
"""Filled by plugins: ``TARGET_PASSES.register(my_pass.name, my_pass)``. A pass asks ``Context`` whether it applies."""


@dataclass(frozen=True)
class TargetPasses(Pass):
    """Run every registered pass, by name, on the program as it will be compiled, and check it after each.

    A pass must leave layouts that implementations serve: what it inserts has a placement, and no value that shares a
    buffer changes. Raises ``ProgramError`` that names the pass when it breaks the program.
    """

    name: ClassVar[str] = "target_passes"
    needs: ClassVar[Stage] = Stage.FORMATTED

    def run(self, program: Program, context: Context) -> int:
        changes = 0
        for added in TARGET_PASSES.values():
            changes += added.run(program, context)
            try:
                check(program)
            except ProgramError as error:
                raise ProgramError(f"target pass {added.name}: {error}") from error
        return changes
