"""Matrix products of bytes on CPU devices: rows are pixels that have their channels side by side."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.byte_ends import end_of
from clgraph.implementations.cpu.byte_operands import BYTE_TILE, packed_parameters, packed_weights, parameters_refusal
from clgraph.implementations.cpu.byte_products import products
from clgraph.implementations.cpu.byte_sizes import byte_sizes, products_seconds
from clgraph.implementations.cpu.fused_operations import post_refusal
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.quantized_convolution import TERMS
from clgraph.ops.quantized_matmul import QuantizedMatMul, as_convolution
from clgraph.ops.static_quantize import DequantizeAdd
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


@implements(QuantizedMatMul, name="quantized_matmul.bytes_rows", serves=BYTE_TILE)
class QuantizedMatMulBytes(Implementation[QuantizedMatMul]):
    """Dense rows of multiples of four bytes by register blocks of 6 rows and 64 columns."""

    @classmethod
    def limits(cls, q: Query[QuantizedMatMul]) -> str | None:
        a, y = q.inputs[0], q.outputs[0]
        if a.dtype != DType.U8:
            return f"multiplies u8 by i8, not {a.dtype}"
        if odd := [x for i, x in enumerate((*q.inputs, y)) if i not in (1, 2, 3, 4) and not x.is_dense_plain]:
            return f"serves dense plain tensors, not {odd[0]}"
        if a.shape[-1] % 4 or a.shape[-1] > TERMS or a.rank > 4:
            return f"serves up to four axes, and rows of multiples of 4 up to {TERMS}, not {a}"
        if (why := parameters_refusal(q, y.shape[-1])) is not None:
            return why
        turned = as_convolution(q)
        if (why := post_refusal(turned)) is not None:
            return why
        end = end_of(turned)
        if isinstance(end, str):
            return end
        adds = any(isinstance(f.primitive, DequantizeAdd) for f in q.post)
        return "adds bytes to whole blocks" if adds and y.shape[-1] % LANES else None

    @classmethod
    def weights(cls, q: Query[QuantizedMatMul]) -> Mapping[int, Format | Primitive]:
        outputs = 0 if q.primitive.transpose_b else 1
        nb = byte_sizes(as_convolution(q)).block.nb
        return {**packed_weights(q, nb, outputs, 1 - outputs), **packed_parameters(q)}

    @classmethod
    def cost(cls, q: Query[QuantizedMatMul]) -> float:
        return products_seconds(as_convolution(q))

    @classmethod
    def plan(cls, q: Query[QuantizedMatMul]) -> Plan:
        return products(as_convolution(q))
