"""Operators of a target's own. Answers the tensor-selection phase of ONNC's backends."""

from __future__ import annotations

from typing import ClassVar

from clgraph.passes.targets.target import Phase
from clgraph.passes.targets.target_phase import TargetPhase


class TargetTensorSelection(TargetPhase):
    """Let targets make operators of their own of what is placed on their devices, before anything is fused."""

    name: ClassVar[str] = "target_tensor_selection"
    phase: ClassVar[Phase] = Phase.TENSOR_SELECTION
