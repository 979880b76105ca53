"""Products of 8-bit integers that become floats: what ONNX Runtime fuses dynamically quantised layers to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.dynamic_quantize import DynamicQuantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.integer_matmul import IntegerMatMul, zero_like
from clgraph.ops.matmul import MatMul
from clgraph.ops.microsoft.attention import refuse_shared_buffers
from clgraph.ops.microsoft.self_attention import emit_self_attention
from clgraph.ops.reorder import Reorder


@primitive
@frozen
class ScaledSums(Composite):
    """``sums * (a_scale * b_scale) + bias`` in the type of the scales, of sums in I32; the bias may be left out."""

    kind: ClassVar[str] = "scaled_sums"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        sums, a_scale, b_scale, *bias = c.inputs
        scale = c.add(Eltwise("mul"), a_scale, b_scale)
        y = c.add(Eltwise("mul"), c.add(Reorder(c.layout(a_scale).dtype), sums), scale)
        return (c.add(Eltwise("add"), y, *bias) if bias else y,)


def _emit_product(node: OnnxNode, a: Sequence[str], b: Sequence[str], bias: str) -> tuple[str, ...]:
    """Emit the product of *a* and *b*, each integers, their scale and their zero point or ``""``."""
    zeros = (zero or zero_like(node, x) for x, _, zero in (a, b))
    (sums,) = node.emit(IntegerMatMul(), a[0], b[0], *zeros)
    return node.emit(ScaledSums(), sums, a[1], b[1], *filter(None, (bias,)))


@onnx("MatMulIntegerToFloat", since=(1,), domain=MICROSOFT)
def import_matmul_integer_to_float(node: OnnxNode) -> Sequence[str]:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = (*node.inputs, "", "", "")[:7]
    return _emit_product(node, (a, a_scale, a_zero), (b, b_scale, b_zero), bias)


@onnx("DynamicQuantizeMatMul", since=(1,), domain=MICROSOFT)
def import_dynamic_quantize_matmul(node: OnnxNode) -> Sequence[str]:
    a, b, b_scale, b_zero, bias = (*node.inputs, "", "")[:5]
    return _emit_product(node, node.emit(DynamicQuantize(), a, outputs=3), (b, b_scale, b_zero), bias)


@onnx("MatMulInteger16", since=(1,), domain=MICROSOFT)
def import_matmul_integer_16(node: OnnxNode) -> Sequence[str]:
    """Return a product of int16 in int32."""
    return node.emit(MatMul(), *(node.emit(Reorder(DType.I32), x)[0] for x in node.inputs))


@onnx("QAttention", since=(1,), domain=MICROSOFT)
def import_q_attention(node: OnnxNode) -> Sequence[str]:
    refuse_shared_buffers(node)
    x, weights, bias, x_scale, scale, mask, x_zero, zero, past = (*node.inputs, *[""] * 4)[:9]
    (product,) = _emit_product(node, (x, x_scale, x_zero), (weights, scale, zero), bias)
    return emit_self_attention(node, product, (), mask, past, "")
