"""What a sum, a product or a softmax of quantised values becomes to be rounded as ONNX Runtime's fused operators do."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.microsoft.qlinear import share_of_steps
from clgraph.ops.quantize import Quantize
from clgraph.ops.quantized_product import QuantizedProduct
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.softmax import Softmax
from clgraph.passes.quantization.roundings import BYTES, known_numbers
from clgraph.passes.rewriting import apart, read_outside, substitute

_ORDERS = {"add": QuantizedSum, "mul": QuantizedProduct}


@frozen
class _Steps:
    """Integers of 8 bits: their type, scale and zero point."""

    dtype: DType
    scale: float
    zero: int


def order_as_fused(program: Program, node: Node) -> bool:
    """Add or multiply in the order of QLinearAdd or QLinearMul where ONNX Runtime makes one of *node*; say whether."""
    p = node.primitive
    if not isinstance(p, Eltwise) or p.function not in _ORDERS or p != Eltwise(p.function):
        return False
    if (steps := _fused_steps(program, node)) is None:
        return False
    if any(v.constant is not None and v.layout.count == 1 for v in node.inputs):
        return False
    a, b, y = steps
    substitute(program, [node], _ORDERS[p.function]((a.scale, b.scale, y.scale), (a.zero, b.zero, y.zero)), node.inputs)
    return True


def share_as_fused(program: Program, node: Node) -> bool:
    """Scale a softmax as QLinearSoftmax does where ONNX Runtime makes one of *node*; say whether that is a change."""
    steps = _fused_steps(program, node) if isinstance(node.primitive, Softmax) else None
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
