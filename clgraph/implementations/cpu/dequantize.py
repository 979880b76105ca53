"""Bytes in blocks as floats, and operations on them, on CPU devices with VNNI."""

from __future__ import annotations

from dataclasses import replace

from clgraph.core.dtype import DType
from clgraph.core.format import feature_blocked
from clgraph.implementations.cpu.byte_moves import (
    between,
    between_formats,
    between_refusal,
    between_seconds,
    in_rows,
    rows_refusal,
)
from clgraph.implementations.cpu.byte_products import BYTE_TILE
from clgraph.ops.quantize import Dequantize
from clgraph.selector.descriptor import NULL, Ref
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


def _refusal(q: Query[Dequantize]) -> str | None:
    x, scale, *zero = q.own
    if x.dtype != DType.U8 or scale.count != 1 or scale.dtype != DType.F32 or any(z.count != 1 for z in zero):
        return f"widens u8 with one scale of f32, not {x} with {scale}"
    return None


@implements(Dequantize, name="dequantize.fsv16", serves=BYTE_TILE)
class DequantizeFsv16(Implementation[Dequantize]):
    """Blocks of bytes with one scale to blocks of floats, or of bytes behind a list of operations."""

    @classmethod
    def limits(cls, q: Query[Dequantize]) -> str | None:
        return _refusal(q) or between_refusal(q)

    @classmethod
    def formats(cls, q: Query[Dequantize]) -> tuple[Formats, ...]:
        return between_formats(q, feature_blocked(q.inputs[0].rank)) if q.inputs[0].rank in (3, 4) else ()

    @classmethod
    def cost(cls, q: Query[Dequantize]) -> float:
        return between_seconds(q)

    @classmethod
    def plan(cls, q: Query[Dequantize]) -> Plan:
        return between(q, None, Ref("in1"), Ref("in2") if q.arity > 2 else NULL)


@implements(Dequantize, name="dequantize.rows", serves=replace(BYTE_TILE, fuses=frozenset()))
class DequantizeRows(Implementation[Dequantize]):
    """Dense plain bytes with one scale to the same of floats."""

    @classmethod
    def limits(cls, q: Query[Dequantize]) -> str | None:
        return _refusal(q) or rows_refusal(q)

    @classmethod
    def cost(cls, q: Query[Dequantize]) -> float:
        return between_seconds(q)

    @classmethod
    def plan(cls, q: Query[Dequantize]) -> Plan:
        return between(in_rows(q), None, Ref("in1"), Ref("in2") if q.arity > 2 else NULL)
