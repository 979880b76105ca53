"""A target's order of execution. Answers the tensor-scheduling phase of ONNC's backends."""

from __future__ import annotations

from typing import ClassVar

from clgraph.graph.program import Milestone
from clgraph.passes.targets.target import Phase
from clgraph.passes.targets.target_phase import TargetPhase


class TargetScheduling(TargetPhase):
    """Let targets change the order of execution: kernels are chosen, and no node comes or goes any more."""

    name: ClassVar[str] = "target_scheduling"
    phase: ClassVar[Phase] = Phase.SCHEDULING
    needs: ClassVar[Milestone] = Milestone.SELECTED
