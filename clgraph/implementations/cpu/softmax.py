"""Softmax of plain tensors on CPU devices: over the last axes, and over one with others behind it."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.columns import ByColumns, ColumnFields, Columns
from clgraph.implementations.cpu.rows import ByRows, Rows, as_rows
from clgraph.ops.softmax import Softmax
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("softmax_rows", any_alignment=True)
class SoftmaxRowsDesc(Descriptor):
    """Fields as in ``softmax_rows.cl``."""

    inp: Pointer
    out: Pointer
    in_n: Long
    out_n: Long
    in_y: Int
    out_y: Int
    images: Int
    rows: Int
    width: Int
    ticket_rows: Int
    logarithm: Int


def _vector_seconds(q: Query[Softmax]) -> float:
    """Return the time of maximum, exponential, sum and scaling of 16 floats."""
    return q.device.costs.unit("softmax.vector")


def _behind(q: Query[Softmax]) -> int:
    """Return how many elements lie behind each one of the axes."""
    return prod(q.inputs[0].shape[max(q.primitive.axes) + 1 :])


@implements(Softmax, name="softmax.rows", serves=replace(TILE, formats=False, halos=False))
class SoftmaxRows(ByRows[Softmax]):
    """A row at a time: its maximum, its exponentials and their sum, the quotients."""

    @classmethod
    def vector_seconds(cls, q: Query[Softmax]) -> float:
        return _vector_seconds(q)

    @classmethod
    def width(cls, q: Query[Softmax]) -> int:
        return prod(q.inputs[0].shape[a] for a in q.primitive.axes)

    @classmethod
    def rows(cls, q: Query[Softmax]) -> Rows | str:
        x, axes = q.inputs[0], sorted(q.primitive.axes)
        if not x.is_dense_plain or not q.outputs[0].is_dense_plain:
            return "serves dense plain tensors"
        if axes != list(range(axes[0], axes[-1] + 1)) or _behind(q) != 1:
            return f"serves the last axes of more than one element, not {axes} of {x.rank}"
        # One axis for all that is summed over keeps it from merging with the rows.
        rows = as_rows(q, 0, q.post_slots, axes[0])
        if not isinstance(rows, str) and rows.width.size != cls.width(q):
            return "requires operands that move evenly along the axes summed over"
        return rows

    @classmethod
    def overwrites(cls, q: Query[Softmax]) -> frozenset[int]:
        return frozenset() if q.primitive.log else frozenset({0})

    @classmethod
    def plan(cls, q: Query[Softmax]) -> Plan:
        rows, tickets, post = cls.planned(q)
        desc = SoftmaxRowsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            in_n=rows.images.pitches[0],
            out_n=rows.images.pitches[1],
            in_y=rows.rows.pitches[0],
            out_y=rows.rows.pitches[1],
            images=rows.images.size,
            rows=rows.rows.size,
            width=rows.width.size,
            ticket_rows=tickets.each,
            logarithm=int(q.primitive.log),
        )
        return Plan((Tile("softmax_rows", desc, tickets.count, post=post),))


@descriptor("softmax_planes", any_alignment=True)
class SoftmaxPlanesDesc(ColumnFields, Descriptor):
    """Fields as in ``softmax_planes.cl``."""

    inp: Pointer
    out: Pointer
    logarithm: Int


@implements(Softmax, name="softmax.planes", serves=replace(TILE, formats=False, halos=False))
class SoftmaxPlanes(ByColumns[Softmax]):
    """Sixteen neighbours at a time, each with its own maximum and sum along the axes in front of them."""

    @classmethod
    def limits(cls, q: Query[Softmax]) -> str | None:
        axes = sorted(q.primitive.axes)
        if not q.inputs[0].count or axes != list(range(axes[0], axes[-1] + 1)):
            return f"serves neighbouring axes of tensors with elements, not {axes}"
        if _behind(q) == 1:
            return "serves axes with other elements behind them"
        return "applies no further operations" if q.fused else super().limits(q)

    @classmethod
    def overwrites(cls, q: Query[Softmax]) -> frozenset[int]:
        return frozenset() if q.primitive.log else frozenset({0})

    @classmethod
    def columns(cls, q: Query[Softmax]) -> Columns:
        axes = sorted(q.primitive.axes)
        return Columns.of(q.inputs[0].shape, axes[0], axes[-1])

    @classmethod
    def vector_seconds(cls, q: Query[Softmax]) -> float:
        return _vector_seconds(q)

    @classmethod
    def plan(cls, q: Query[Softmax]) -> Plan:
        tickets, columns = cls.cut(q)
        desc = SoftmaxPlanesDesc(inp=Ref("in0"), out=Ref("out0"), **columns, logarithm=int(q.primitive.log))
        return Plan((Tile("softmax_planes", desc, tickets),))
