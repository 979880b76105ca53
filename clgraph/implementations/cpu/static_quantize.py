"""Rounding of floats to bytes in blocks on CPU devices with VNNI, whose products read them."""

from __future__ import annotations

from dataclasses import replace

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.byte_moves import (
    between,
    between_formats,
    between_refusal,
    between_seconds,
    in_rows,
    rows_refusal,
)
from clgraph.implementations.cpu.byte_operands import BYTE_TILE
from clgraph.ops.static_quantize import StaticQuantize
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


@implements(StaticQuantize, name="static_quantize.fsv16", serves=replace(BYTE_TILE, fuses=frozenset({"byte_lookup"})))
class StaticQuantizeFsv16(Implementation[StaticQuantize]):
    """Planes or blocks of floats to blocks of bytes, or of what a table has for these."""

    @classmethod
    def limits(cls, q: Query[StaticQuantize]) -> str | None:
        if (q.inputs[0].dtype, q.outputs[0].dtype) != (DType.F32, DType.U8):
            return f"rounds f32 to u8, not {q.inputs[0].dtype} to {q.outputs[0].dtype}"
        return between_refusal(q)

    @classmethod
    def formats(cls, q: Query[StaticQuantize]) -> tuple[Formats, ...]:
        return between_formats(q, plain=True)

    @classmethod
    def cost(cls, q: Query[StaticQuantize]) -> float:
        return between_seconds(q)

    @classmethod
    def plan(cls, q: Query[StaticQuantize]) -> Plan:
        return between(q, q.primitive)


@implements(StaticQuantize, name="static_quantize.rows", serves=replace(BYTE_TILE, fuses=frozenset()))
class StaticQuantizeRows(Implementation[StaticQuantize]):
    """Dense plain floats to the same of bytes."""

    @classmethod
    def limits(cls, q: Query[StaticQuantize]) -> str | None:
        if (q.inputs[0].dtype, q.outputs[0].dtype) != (DType.F32, DType.U8):
            return f"rounds f32 to u8, not {q.inputs[0].dtype} to {q.outputs[0].dtype}"
        return rows_refusal(q)

    @classmethod
    def cost(cls, q: Query[StaticQuantize]) -> float:
        return between_seconds(q)

    @classmethod
    def plan(cls, q: Query[StaticQuantize]) -> Plan:
        return between(in_rows(q), q.primitive)
