"""A pass of the pipeline that runs what targets hook into one phase."""

from __future__ import annotations

from typing import ClassVar

from clgraph.errors import ClgraphError, ProgramError
from clgraph.graph.check import check
from clgraph.graph.program import Milestone, Program
from clgraph.handlers import pass_on
from clgraph.passes.base import Context, Pass
from clgraph.passes.targets.target import Phase, Target, targets_of


def in_use(program: Program, context: Context) -> list[Target]:
    """Return the targets whose devices *program* has nodes on."""
    placements = {node.placement for node in program}
    return targets_of(info for name, info in context.devices.items() if name in placements)


class TargetPhase(Pass):
    """Run what targets hook into one phase, target by target by name, and check the program after each pass."""

    phase: ClassVar[Phase]
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        changes = 0
        for target in in_use(program, context):
            for added in target.at(self.phase):
                changes += self.run_added(f"{added.name} of target {target.name}", added, program, context)
        return changes

    def run_added(self, what: str, added: Pass, program: Program, context: Context) -> int:
        """Run one pass from outside; an error names it."""
        try:
            changes = added.run(program, context)
            check(program)
        except ClgraphError as error:
            raise type(error)(f"target pass {what}: {error}") from error
        except Exception as error:  # a third-party pass may raise anything; the error must name it
            pass_on(error)
            raise ProgramError(f"target pass {what} failed: {type(error).__name__}: {error}") from error
        return changes

    def describe(self, kind: str) -> str:
        return "as the passes do that targets add here"
