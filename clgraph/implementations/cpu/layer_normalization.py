"""Layer normalisation of plain rows on CPU devices."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from clgraph.implementations.cpu.convolution import TILE
from clgraph.implementations.cpu.copies import Rows, as_rows, row_pitches
from clgraph.implementations.cpu.cost import TicketRanges, split, step_seconds, ticket_seconds
from clgraph.implementations.cpu.geometry import LANES, post_refusal
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.selector.descriptor import NULL, Descriptor, Float, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import post_steps
from clgraph.selector.query import Query


@descriptor("normalize_rows")
class NormalizeRowsDesc(Descriptor):
    """Fields as in ``normalize_rows.cl``."""

    inp: Pointer
    out: Pointer
    scale: Pointer
    bias: Pointer
    in_y: Int
    out_y: Int
    rows: Int
    width: Int
    ticket_rows: Int
    epsilon: Float


def _width(q: Query[LayerNormalization]) -> int:
    return prod(q.inputs[0].shape[q.primitive.axis :])


def _vector_seconds(q: Query[LayerNormalization]) -> float:
    """Return the time of mean, variance and scaling of 16 floats."""
    return q.device.costs.unit("layer_normalization.vector")


def _tickets(q: Query[LayerNormalization]) -> TicketRanges:
    width = _width(q)
    count, row = q.inputs[0].count // max(1, width), (-(-width // LANES) + 4) * _vector_seconds(q)
    return split(count, row, ticket_seconds(row * count, q.device), q.device.workers)


def _rows(q: Query[LayerNormalization]) -> Rows | str:
    rows = as_rows(q, 0, q.post_slots, q.primitive.axis)
    if isinstance(rows, str):
        return rows
    if rows.width.size != _width(q) or rows.images.size != 1:
        return "wants operands that move evenly along rows and their elements"
    return rows


@implements(LayerNormalization, name="layer_normalization.rows", serves=replace(TILE, formats=False, halos=False))
class NormalizeRows(Implementation[LayerNormalization]):
    """A row at a time: its mean, its variance, the scaled differences."""

    @classmethod
    def limits(cls, q: Query[LayerNormalization]) -> str | None:
        x, p = q.inputs[0], q.primitive
        if p.channels:
            return "scales elements of a row, not channels"
        if not all(t.is_dense_plain for t in (*q.own, q.outputs[0])):
            return "serves dense plain tensors"
        tail = x.shape[p.axis :]
        if any(w.shape[-len(tail) :] != tail or w.count != prod(tail) for w in q.own[1:]):
            return f"wants scale and bias of shape {list(tail)}"
        rows = _rows(q)
        return rows if isinstance(rows, str) else post_refusal(q)

    @classmethod
    def overwrites(cls, q: Query[LayerNormalization]) -> frozenset[int]:
        return frozenset({0})

    @classmethod
    def cost(cls, q: Query[LayerNormalization]) -> float:
        vectors = q.inputs[0].count // _width(q) * (-(-_width(q) // LANES) + 4)
        return step_seconds(q.device, vectors * _vector_seconds(q), 2 * q.inputs[0].nbytes, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[LayerNormalization]) -> Plan:
        rows, tickets = _rows(q), _tickets(q)
        if isinstance(rows, str):
            raise TypeError(rows)
        desc = NormalizeRowsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            scale=Ref("in1"),
            bias=Ref("in2") if q.arity > 2 else NULL,
            in_y=rows.rows.pitches[0],
            out_y=rows.rows.pitches[1],
            rows=rows.rows.size,
            width=rows.width.size,
            ticket_rows=tickets.each,
            epsilon=q.primitive.epsilon,
        )
        pitches = [row_pitches(rows, i) for i in range(len(q.post_slots))]
        post = post_steps(q, lambda layout: pitches.pop(0))
        return Plan((Tile("normalize_rows", desc, tickets.count, post=post),))
