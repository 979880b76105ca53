"""Integers with one scale as floats, and operations on them, on CPU devices."""

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
from clgraph.implementations.cpu.element_functions import FUNCTIONS, Computation
from clgraph.implementations.cpu.element_types import FLOAT
from clgraph.implementations.cpu.elements import ELEMENTS
from clgraph.implementations.cpu.scaled_elements import ScaledElements, scales_refusal
from clgraph.ops.dequantize import Dequantize
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


def _refusal(q: Query[Dequantize]) -> str | None:
    x, scale, *zero = q.own
    if x.dtype != DType.U8 or scale.count != 1 or scale.dtype != DType.F32 or any(z.count != 1 for z in zero):
        return f"widens u8 with one scale of f32, not {x} with {scale}"
    return None


@implements(Dequantize, name="dequantize.fsv16", serves=replace(BYTE_TILE, halos=True))
class DequantizeFsv16(Implementation[Dequantize]):
    """Blocks of bytes with one scale to blocks of floats, or of bytes behind a list of operations."""

    @classmethod
    def limits(cls, q: Query[Dequantize]) -> str | None:
        return _refusal(q) or between_refusal(q)

    @classmethod
    def formats(cls, q: Query[Dequantize]) -> tuple[Formats, ...]:
        return between_formats(q)

    @classmethod
    def cost(cls, q: Query[Dequantize]) -> float:
        return between_seconds(q)

    @classmethod
    def plan(cls, q: Query[Dequantize]) -> Plan:
        return between(q, None, Ref("in1"), Ref(q.role(2)))


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
        return between(in_rows(q), None, Ref("in1"), Ref(q.role(2)))


_EXACT = frozenset({DType.I8, DType.U8, DType.I16, DType.U16})
"""Integers whose difference is a float."""


@implements(Dequantize, name="dequantize.elements", serves=ELEMENTS)
class DequantizeElements(ScaledElements):
    """Plain integers of up to 16 bits with one scale, or one an index of an axis."""

    @classmethod
    def computation(cls, q: Query[Dequantize]) -> Computation | str:
        x, scale, *zero = q.own
        if x.dtype not in _EXACT or {scale.dtype, q.outputs[0].dtype} != {DType.F32}:
            return f"widens integers of up to 16 bits with scales of f32, not {x} with {scale}"
        function, slots = ("sub", (0, 2)) if zero else ("same", (0,))
        return scales_refusal(q) or Computation(FUNCTIONS[function], FLOAT, slots, x.dtype, DType.F32, factors=(1,))
