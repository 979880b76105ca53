"""A target's say in who shares memory. Answers the memory-allocation phase of ONNC's backends."""

from __future__ import annotations

from typing import ClassVar

from clgraph.graph.program import Milestone
from clgraph.passes.targets.target import Phase
from clgraph.passes.targets.target_phase import TargetPhase


class TargetMemoryAllocation(TargetPhase):
    """Let targets change which buffers may share memory, and whose arena they lie in, before they get their places."""

    name: ClassVar[str] = "target_memory_allocation"
    phase: ClassVar[Phase] = Phase.MEMORY_ALLOCATION
    needs: ClassVar[Milestone] = Milestone.SELECTED
