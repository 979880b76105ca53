"""Layer normalisation of plain rows on CPU devices."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from clgraph.implementations.cpu.blocked import NOTING_TILE
from clgraph.implementations.cpu.rows import ByRows, Rows, as_rows
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.selector.descriptor import NULL, Descriptor, Float, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("normalize_rows", any_alignment=True)
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
    centred: Int
    epsilon: Float


@implements(
    LayerNormalization, name="layer_normalization.rows", serves=replace(NOTING_TILE, formats=False, halos=False)
)
class NormalizeRows(ByRows[LayerNormalization]):
    """A row at a time: its mean, its variance, the scaled differences."""

    @classmethod
    def vector_seconds(cls, q: Query[LayerNormalization]) -> float:
        """Return the time of mean, variance and scaling of 16 floats."""
        return q.device.costs.unit("layer_normalization.vector")

    @classmethod
    def width(cls, q: Query[LayerNormalization]) -> int:
        return prod(q.inputs[0].shape[q.primitive.axis :])

    @classmethod
    def rows(cls, q: Query[LayerNormalization]) -> Rows | str:
        x, p = q.inputs[0], q.primitive
        if p.channels:
            return "scales elements of a row, not channels"
        if not all(t.is_dense_plain for t in (*q.own, q.outputs[0])):
            return "serves dense plain tensors"
        tail = x.shape[p.axis :]
        if any(w.shape[-len(tail) :] != tail or w.count != prod(tail) for w in q.own[1:]):
            return f"requires scale and bias of shape {list(tail)}"
        rows = as_rows(q, 0, q.post_slots, p.axis)
        if not isinstance(rows, str) and (rows.width.size != cls.width(q) or rows.images.size != 1):
            return "requires operands that move evenly along rows and their elements"
        return rows

    @classmethod
    def overwrites(cls, q: Query[LayerNormalization]) -> frozenset[int]:
        return frozenset({0})

    @classmethod
    def plan(cls, q: Query[LayerNormalization]) -> Plan:
        rows, tickets, post = cls.planned(q)
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
            centred=int(q.primitive.centred),
            epsilon=q.primitive.epsilon,
        )
        return Plan((Tile("normalize_rows", desc, tickets.count, post=post),))
