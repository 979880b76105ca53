"""Softmax of plain tensors on CPU devices: over the last axes, and over one with others behind it."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from clgraph.implementations.cpu.convolution import TILE
from clgraph.implementations.cpu.copies import Rows, as_rows, row_pitches
from clgraph.implementations.cpu.cost import TicketRanges, split, step_seconds, ticket_seconds
from clgraph.implementations.cpu.geometry import LANES, post_refusal
from clgraph.ops.softmax import Softmax
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import post_steps
from clgraph.selector.query import Query


@descriptor("softmax_rows")
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


def _width(q: Query[Softmax]) -> int:
    return prod(q.inputs[0].shape[a] for a in q.primitive.axes)


def _vector_seconds(q: Query[Softmax]) -> float:
    """Return the time of maximum, exponential, sum and scaling of 16 floats."""
    return q.device.costs.unit("softmax.vector")


def _tickets(q: Query[Softmax]) -> TicketRanges:
    width = _width(q)
    count, row = q.inputs[0].count // max(1, width), (-(-width // LANES) + 4) * _vector_seconds(q)
    return split(count, row, ticket_seconds(row * count, q.device), q.device.workers)


def whole_rows(q: Query[Softmax]) -> Rows | str:
    """Return the rows that the softmax runs over, or why they are none."""
    x, axes = q.inputs[0], q.primitive.axes
    if not x.is_dense_plain or not q.outputs[0].is_dense_plain:
        return "serves dense plain tensors"
    if tuple(sorted(axes)) != tuple(range(x.rank - len(axes), x.rank)):
        return f"serves the last axes, not {axes} of {x.rank}"
    # One axis for all that is summed over keeps it from merging with the rows.
    rows = as_rows(q, 0, q.post_slots, q.inputs[0].rank - len(axes))
    if not isinstance(rows, str) and rows.width.size != _width(q):
        return "wants operands that move evenly along the axes summed over"
    return rows


@implements(Softmax, name="softmax.rows", serves=replace(TILE, formats=False, halos=False))
class SoftmaxRows(Implementation[Softmax]):
    """A row at a time: its maximum, its exponentials and their sum, the quotients."""

    @classmethod
    def limits(cls, q: Query[Softmax]) -> str | None:
        rows = whole_rows(q)
        return rows if isinstance(rows, str) else post_refusal(q)

    @classmethod
    def overwrites(cls, q: Query[Softmax]) -> frozenset[int]:
        return frozenset() if q.primitive.log else frozenset({0})

    @classmethod
    def cost(cls, q: Query[Softmax]) -> float:
        vectors = q.inputs[0].count // _width(q) * (-(-_width(q) // LANES) + 4)
        return step_seconds(q.device, vectors * _vector_seconds(q), 2 * q.inputs[0].nbytes, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[Softmax]) -> Plan:
        rows, tickets = whole_rows(q), _tickets(q)
        if isinstance(rows, str):
            raise TypeError(rows)
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
        pitches = [row_pitches(rows, i) for i in range(len(q.post_slots))]
        post = post_steps(q, lambda layout: pitches.pop(0))
        return Plan((Tile("softmax_rows", desc, tickets.count, post=post),))


@descriptor("softmax_planes")
class SoftmaxPlanesDesc(Descriptor):
    """Fields as in ``softmax_planes.cl``."""

    inp: Pointer
    out: Pointer
    images: Int
    count: Int
    inner: Int
    vectors: Int
    ticket_vectors: Int
    logarithm: Int


def _planes(q: Query[Softmax]) -> tuple[int, int, int]:
    """Return images, elements summed over and elements behind them."""
    shape, axes = q.inputs[0].shape, sorted(q.primitive.axes)
    return prod(shape[: axes[0]]), prod(shape[axes[0] : axes[-1] + 1]), prod(shape[axes[-1] + 1 :])


def _plane_tickets(q: Query[Softmax]) -> TicketRanges:
    images, count, inner = _planes(q)
    vectors, each = images * -(-inner // LANES), count * _vector_seconds(q)
    return split(vectors, each, ticket_seconds(vectors * each, q.device), q.device.workers)


@implements(Softmax, name="softmax.planes", serves=replace(TILE, formats=False, halos=False))
class SoftmaxPlanes(Implementation[Softmax]):
    """Sixteen neighbours at a time, each with its own maximum and sum along the axes in front of them."""

    @classmethod
    def limits(cls, q: Query[Softmax]) -> str | None:
        x, axes = q.inputs[0], sorted(q.primitive.axes)
        if not x.is_dense_plain or not q.outputs[0].is_dense_plain:
            return "serves dense plain tensors"
        if not x.count or axes != list(range(axes[0], axes[-1] + 1)):
            return f"serves neighbouring axes of tensors with elements, not {axes}"
        if axes[-1] == x.rank - 1:
            return "serves axes with others behind them"
        return "applies no further operations" if q.fused else None

    @classmethod
    def overwrites(cls, q: Query[Softmax]) -> frozenset[int]:
        return frozenset() if q.primitive.log else frozenset({0})

    @classmethod
    def cost(cls, q: Query[Softmax]) -> float:
        images, count, inner = _planes(q)
        work = images * -(-inner // LANES) * count * _vector_seconds(q)
        return step_seconds(q.device, work, 2 * q.inputs[0].nbytes, _plane_tickets(q).count)

    @classmethod
    def plan(cls, q: Query[Softmax]) -> Plan:
        (images, count, inner), tickets = _planes(q), _plane_tickets(q)
        desc = SoftmaxPlanesDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            images=images,
            count=count,
            inner=inner,
            vectors=-(-inner // LANES),
            ticket_vectors=tickets.each,
            logarithm=int(q.primitive.log),
        )
        return Plan((Tile("softmax_planes", desc, tickets.count),))
