"""Let sums, products and softmaxes of quantised models be rounded as ONNX Runtime's fused operators round them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.byte_lookup import BYTES
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.microsoft.qlinear import share_of_steps
from clgraph.ops.quantize import Quantize
from clgraph.ops.quantized_product import QuantizedProduct
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.softmax import Softmax
from clgraph.passes.base import Context, Pass
from clgraph.passes.rewriting import apart, read_outside, substitute

_ORDERS = {"add": QuantizedSum, "mul": QuantizedProduct}


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
        changes = sum(_share(program, node) for node in tuple(program) if isinstance(node.primitive, Softmax))
        if context.on_cpus:
            changes += sum(_order(program, node) for node in tuple(program) if isinstance(node.primitive, Eltwise))
        return changes


@frozen
class _Steps:
    """Integers of 8 bits: their type, scale and zero point."""

    dtype: DType
    scale: float
    zero: int


def known_numbers(node: Node) -> tuple[float, int] | None:
    """Return scale and zero point of *node*, a Quantize or Dequantize, where each is one known number.

    The scale is positive and finite.
    """
    scale, *zero = (v.constant for v in node.inputs[1:])
    if scale is None or scale.size != 1 or any(z is None for z in zero):
        return None
    number = float(scale.reshape(-1)[0])
    return (number, int(zero[0].reshape(-1)[0]) if zero and zero[0] is not None else 0) if 0 < number < np.inf else None


def _order(program: Program, node: Node) -> bool:
    """Add or multiply in the order of QLinearAdd or QLinearMul where ONNX Runtime makes one of *node*; say whether."""
    p, steps = node.primitive, _fused_steps(program, node)
    if steps is None or not isinstance(p, Eltwise) or p != Eltwise(p.function) or p.function not in _ORDERS:
        return False
    if any(v.constant is not None and v.layout.count == 1 for v in node.inputs):
        return False
    a, b, y = steps
    substitute(program, [node], _ORDERS[p.function]((a.scale, b.scale, y.scale), (a.zero, b.zero, y.zero)), node.inputs)
    return True


def _share(program: Program, node: Node) -> bool:
    """Scale a softmax as QLinearSoftmax does where ONNX Runtime makes one of *node*; say whether that is a change."""
    steps = _fused_steps(program, node)
    share = 1.0 if steps is None else share_of_steps(np.array(steps[-1].scale, np.float32))
    if share == 1:
        return False
    (rounding,) = node.output.readers
    scaled = program.insert(Activation("linear", share), [node.output], sources=[node, rounding], before=rounding)
    program.rewire(node.output, scaled.output, uses=[(rounding, 0)])
    return True


def _fused_steps(program: Program, node: Node) -> list[_Steps] | None:
    """Return the steps of *node*'s inputs and result, ``None`` where ONNX Runtime does not fuse it."""
    rounding = node.output.readers[0] if len(node.output.readers) == 1 else None
    if rounding is None or not isinstance(rounding.primitive, Quantize) or rounding.primitive.narrow:
        return None
    if node.fused or rounding.fused or node.output.layout.dtype != DType.F32:
        return None
    if read_outside(program, node.output, [rounding]) is not None or apart([node, rounding]) is not None:
        return None
    numbers, dtype = known_numbers(rounding), rounding.output.layout.dtype
    if numbers is None or dtype not in BYTES:
        return None
    read = [_steps(v) for v in node.inputs]
    alike = [s for s in read if s is not None and s.dtype == dtype]
    return [*alike, _Steps(dtype, *numbers)] if len(alike) == len(read) else None


def _steps(value: Value) -> _Steps | None:
    """Return what *value* is dequantised from, ``None`` where it is not, or by several numbers."""
    made, constant = value.producer, value.integers
    if constant is not None:
        if constant.scale.size != 1 or (constant.zero is not None and constant.zero.size != 1):
            return None
        zero = 0 if constant.zero is None else int(constant.zero.reshape(()))
        return _Steps(DType.of(constant.data.dtype), float(constant.scale.reshape(())), zero)
    if made is None or not isinstance(made.primitive, Dequantize) or made.fused:
        return None
    numbers = known_numbers(made)
    return None if numbers is None else _Steps(made.inputs[0].layout.dtype, *numbers)
