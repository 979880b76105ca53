"""Integers with scales, one or one an index of an axis, as elementwise functions on CPU devices."""

from __future__ import annotations

from typing import Any

from clgraph.core.layout import Layout
from clgraph.implementations.cpu.elements import Elements
from clgraph.selector.query import Query


class ScaledElements(Elements):
    """What both conversions have in common: scale and zero point follow x."""

    @classmethod
    def aligned(cls, q: Query[Any]) -> Query[Any]:
        x, *numbers = q.own
        spread = (n if n.count == 1 else _along(n, q.primitive.axis, x.rank) for n in numbers)
        return q.with_layouts((x, *spread, *q.inputs[q.arity :]), q.outputs)


def scales_refusal(q: Query[Any]) -> str | None:
    """Say why scale and zero point of *q* are not read as tensors that broadcast, or return ``None``."""
    if q.primitive.block:
        return "reads one scale, or one an index of an axis, not one for a block"
    odd = [n for n in q.own[1:] if n.count != 1 and not n.is_dense_plain]
    return f"requires scales side by side, not {odd[0]}" if odd else None


def _along(numbers: Layout, axis: int, rank: int) -> Layout:
    return Layout(numbers.dtype, tuple(numbers.count if a == axis else 1 for a in range(rank)))
