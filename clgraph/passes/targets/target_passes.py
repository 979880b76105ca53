"""Passes that a package adds for its devices. clDNN's counterparts are written into the pipeline, device by device."""

from __future__ import annotations

from typing import ClassVar

from clgraph.core.registry import Registry
from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.targets.target import Phase
from clgraph.passes.targets.target_phase import TargetPhase

TARGET_PASSES: Registry[str, Pass] = Registry("target pass")
"""Passes for every device, in the phase LAYOUT: ``TARGET_PASSES.register(my_pass.name, my_pass)``."""


class TargetPasses(TargetPhase):
    """Run the passes of targets, and those registered for every device, on the program as it will be compiled.

    A pass must leave layouts that implementations serve: what it inserts has a placement, and no value that shares a
    buffer changes. Raises ``ProgramError`` that names the pass when it breaks the program.
    """

    name: ClassVar[str] = "target_passes"
    phase: ClassVar[Phase] = Phase.LAYOUT
    needs: ClassVar[Milestone] = Milestone.FORMATTED

    def run(self, program: Program, context: Context) -> int:
        changes = TargetPhase.run(self, program, context)
        for added in TARGET_PASSES.values():
            changes += self.run_added(added.name, added, program, context)
        return changes
