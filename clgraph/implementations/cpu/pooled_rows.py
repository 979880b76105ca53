"""Windows of plain tensors, made row by row: what pooling and pooling with places share."""

from __future__ import annotations

from math import prod
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.blocked import square, square_pads
from clgraph.implementations.cpu.element_types import TYPES
from clgraph.implementations.cpu.geometry import SlidingWindow, count_refusal, window
from clgraph.ops.pooling import Pooling
from clgraph.selector.descriptor import Int, fields
from clgraph.selector.query import Query


@fields
class PooledRows(SlidingWindow):
    """The elements' type, the planes of input and result, the zeros before, and the rows of all planes."""

    type: Int
    itemsize: Int
    in_height: Int
    in_width: Int
    height: Int
    width: Int
    pad_top: Int
    pad_left: Int
    rows: Int
    ticket_rows: Int


def pooled_rows(p: Pooling, x: Layout, y: Layout, ticket_rows: int) -> dict[str, Any]:
    """Return the fields of :class:`PooledRows`, with so many rows of the result a ticket."""
    (top, _), (left, _) = square_pads(p.pads)
    return {
        "type": TYPES[x.dtype],
        "itemsize": x.dtype.itemsize,
        "in_height": x.shape[-2] if x.rank > 3 else 1,
        "in_width": x.shape[-1],
        "height": y.shape[-2] if y.rank > 3 else 1,
        "width": y.shape[-1],
        "pad_top": top,
        "pad_left": left,
        "rows": count_rows(y),
        "ticket_rows": ticket_rows,
        **window(square(p.kernel), square(p.strides), square(p.dilations)),
    }


def rows_refusal(q: Query[Any], axes: int = 2) -> str | None:
    """Say why the tensors are not rows along at most so many axes that can be compared, or return ``None``."""
    x = q.inputs[0]
    if not 3 <= x.rank <= axes + 2:
        return f"serves at most {axes} axes, not {x.rank - 2}"
    if not x.count or not all(t.is_dense_plain for t in (*q.inputs, *q.outputs)):
        return "serves dense plain tensors of some elements"
    if x.dtype == DType.F64 and "fp64" not in q.device.features:
        return "needs fp64 for doubles"
    return count_refusal(q)


def count_rows(y: Layout) -> int:
    """Return the rows of all planes of the result."""
    return prod(y.shape[:-1])
