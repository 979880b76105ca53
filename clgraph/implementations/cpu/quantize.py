"""Rounding of floats to integers by scales that are inputs, on CPU devices; to bytes in blocks on those with VNNI."""

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
from clgraph.implementations.cpu.element_functions import QUANTIZE, QUANTIZE_SLOW, Computation
from clgraph.implementations.cpu.element_types import FLOAT, number_bits
from clgraph.implementations.cpu.elements import ELEMENTS
from clgraph.implementations.cpu.scaled_elements import ScaledElements, scales_refusal
from clgraph.ops.quantize import Quantize
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

_SERVES = replace(BYTE_TILE, fuses=frozenset())


def _refusal(q: Query[Quantize]) -> str | None:
    x, scale, *zero = q.own
    types = (x.dtype, scale.dtype, q.outputs[0].dtype)
    if types != (DType.F32, DType.F32, DType.U8) or any(v.count != 1 for v in (scale, *zero)):
        return f"rounds f32 to u8 by one scale, not {x} by {scale} to {q.outputs[0].dtype}"
    wanted = q.primitive.precision
    return None if wanted in (None, DType.F32) else f"divides in float, not in {wanted}"


class _Rounds(Implementation[Quantize]):
    @classmethod
    def cost(cls, q: Query[Quantize]) -> float:
        return between_seconds(q)


@implements(Quantize, name="quantize.fsv16", serves=_SERVES)
class QuantizeFsv16(_Rounds):
    """Planes or blocks of floats to blocks of bytes."""

    @classmethod
    def limits(cls, q: Query[Quantize]) -> str | None:
        return _refusal(q) or between_refusal(q)

    @classmethod
    def formats(cls, q: Query[Quantize]) -> tuple[Formats, ...]:
        return between_formats(q, plain=True)

    @classmethod
    def plan(cls, q: Query[Quantize]) -> Plan:
        return between(q, None, Ref("in1"), Ref(q.role(2)), divided=True)


@implements(Quantize, name="quantize.rows", serves=_SERVES)
class QuantizeRows(_Rounds):
    """Dense plain floats to the same of bytes."""

    @classmethod
    def limits(cls, q: Query[Quantize]) -> str | None:
        return _refusal(q) or rows_refusal(q)

    @classmethod
    def plan(cls, q: Query[Quantize]) -> Plan:
        return between(in_rows(q), None, Ref("in1"), Ref(q.role(2)), divided=True)


_INTEGERS = frozenset({DType.I8, DType.U8, DType.I16, DType.U16})
_FLOATS = frozenset({DType.F32, DType.F16, DType.BF16})


@implements(Quantize, name="quantize.elements", serves=replace(ELEMENTS, fuses=frozenset()))
class QuantizeElements(ScaledElements):
    """Plain floats to integers of 8 or 16 bits by one scale, or one an index of an axis."""

    @classmethod
    def computation(cls, q: Query[Quantize]) -> Computation | str:
        x, scale, *zero = q.own
        y = q.outputs[0].dtype
        if x.dtype not in _FLOATS or x.dtype != scale.dtype or y not in _INTEGERS:
            return f"rounds floats by scales of their type to integers of 8 or 16 bits, not {x} by {scale} to {y}"
        if (wanted := q.primitive.precision) not in (None, DType.F32):
            return f"divides in float, not in {wanted}"
        low, high = (number_bits(limit, DType.F32) for limit in y.bounds)
        slots = (0, 1, 2) if zero else (0, 1)
        found = Computation(QUANTIZE, FLOAT, slots, x.dtype, y, low, high, QUANTIZE_SLOW)
        return scales_refusal(q) or found
