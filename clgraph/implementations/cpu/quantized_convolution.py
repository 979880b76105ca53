"""Convolutions of bytes in blocks on CPU devices: exact sums, two or (with VNNI) four products a lane at once."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.byte_ends import end_of, packed_operands
from clgraph.implementations.cpu.byte_operands import (
    BYTE_CONVOLUTION,
    blocks_refusal,
    byte_formats,
    packed_parameters,
    packed_weights,
)
from clgraph.implementations.cpu.byte_products import products
from clgraph.implementations.cpu.byte_sizes import byte_sizes, products_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.quantized_convolution import TERMS, QuantizedConvolution
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


@implements(QuantizedConvolution, name="quantized_convolution.bytes_fsv16", serves=BYTE_CONVOLUTION)
class QuantizedConvolutionBytes(Implementation[QuantizedConvolution]):
    """Register blocks of 16-channel vectors; any kernel, stride, dilation and pads; groups of whole blocks."""

    @classmethod
    def limits(cls, q: Query[QuantizedConvolution]) -> str | None:
        x, w, groups = q.inputs[0], q.inputs[1], q.primitive.groups
        if x.dtype != DType.U8:
            return f"multiplies u8 by i8, not {x.dtype}"
        if groups > 1 and (w.shape[1] % LANES or w.shape[0] // groups % LANES):
            return f"serves groups of whole {LANES}-channel blocks, not {x.shape[1]} channels in {groups} groups"
        if prod(w.shape[1:]) > TERMS:
            return f"adds up to {TERMS} products in int"
        return blocks_refusal(q)

    @classmethod
    def formats(cls, q: Query[QuantizedConvolution]) -> tuple[Formats, ...]:
        return byte_formats(q)

    @classmethod
    def weights(cls, q: Query[QuantizedConvolution]) -> Mapping[int, Format | Primitive]:
        packed = packed_weights(q, byte_sizes(q).block.nb)
        return {**packed, **packed_parameters(q), **packed_operands(q, end_of(q))}

    @classmethod
    def cost(cls, q: Query[QuantizedConvolution]) -> float:
        return products_seconds(q)

    @classmethod
    def plan(cls, q: Query[QuantizedConvolution]) -> Plan:
        return products(q)
