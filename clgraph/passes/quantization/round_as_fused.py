"""Let sums, products and softmaxes of quantised models be rounded as ONNX Runtime's fused operators round them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.graph.program import Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.quantization.roundings import has_steps


class RoundAsFused(Pass):
    """Let operators between a Dequantize and a Quantize be rounded as those that ONNX Runtime fuses them to.

    It fuses them where operands and result are integers of one type of 8 bits, with one known scale each. On CPUs a sum
    or product has the order of operations of QLinearAdd or QLinearMul; where one operand is one number, it becomes an
    activation. On every device a softmax has the scale of QLinearSoftmax: the whole part of 1 / scale steps.
    """

    name: ClassVar[str] = "round_as_fused"
    rounds: ClassVar[bool] = True
    handles: ClassVar[Mapping[str, str]] = {
        "eltwise": "between integers of 8 bits, a sum or product is rounded as QLinearAdd or QLinearMul does",
        "softmax": "between integers of 8 bits, it is scaled as QLinearSoftmax does",
    }

    def coarsest(self, context: Context) -> float:
        """Return the most that the scale of a softmax loses: one of the 255 steps from 0 to 1."""
        return 1 / 255

    def run(self, program: Program, context: Context) -> int:
        if not any(map(has_steps, program)):
            return 0
        # Imported only where there are integers: with its operators it takes milliseconds of every start.
        from clgraph.passes.quantization.fused_roundings import order_as_fused, share_as_fused

        changes = sum(share_as_fused(program, node) for node in tuple(program))
        if context.on_cpus:
            changes += sum(order_as_fused(program, node) for node in tuple(program))
        return changes
