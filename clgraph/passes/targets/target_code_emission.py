"""A target's last word on what is built. Answers the code-emission phase of ONNC's backends."""

from __future__ import annotations

from typing import ClassVar

from clgraph.graph.program import Milestone
from clgraph.passes.targets.target import Phase
from clgraph.passes.targets.target_phase import TargetPhase


class TargetCodeEmission(TargetPhase):
    """Let targets look at the planned program, or replace choices, before its kernels are built."""

    name: ClassVar[str] = "target_code_emission"
    phase: ClassVar[Phase] = Phase.CODE_EMISSION
    needs: ClassVar[Milestone] = Milestone.PLANNED
