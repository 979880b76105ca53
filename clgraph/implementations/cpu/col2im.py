"""Sums of windows at their places in images, on CPU devices."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.graph.attributes import window_sizes
from clgraph.implementations.cpu.blocked import square, square_pads
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import LANES, SlidingWindow, count_refusal, window
from clgraph.ops.col2im import Col2Im
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_RUN = 6
"""Vectors that take as long as what is done once a row of a window."""


@descriptor("col2im_rows", library="rare", any_alignment=True)
class Col2ImRowsDesc(SlidingWindow, Descriptor):
    """Fields as in ``col2im_rows.cl``."""

    inp: Pointer
    out: Pointer
    rows: Int
    in_rows: Int
    width: Int
    pad_top: Int
    pad_left: Int
    down: Int
    along: Int
    ticket_rows: Int


@implements(Col2Im, name="col2im.rows", serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"})))
class Col2ImRows(Implementation[Col2Im]):
    """A row of an image at a time, of one or two spatial axes."""

    @classmethod
    def limits(cls, q: Query[Col2Im]) -> str | None:
        if not 1 <= len(q.primitive.image) <= 2:
            return f"serves images of one or two axes, not {len(q.primitive.image)}"
        if not all(x.is_dense_plain for x in (*q.inputs, *q.outputs)):
            return "serves dense plain tensors"
        return count_refusal(q)

    @classmethod
    def cost(cls, q: Query[Col2Im]) -> float:
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, _rows(q) * _row_seconds(q), moved, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[Col2Im]) -> Plan:
        p, tickets = q.primitive, _tickets(q)
        counts = window_sizes(p.image, p.block, p.strides, p.dilations, p.pads)
        (top, _), (left, _) = square_pads(p.pads)
        down, along = square(counts)
        desc = Col2ImRowsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            rows=_rows(q),
            in_rows=square(p.image)[0],
            width=p.image[-1],
            **window(square(p.block), square(p.strides), square(p.dilations)),
            pad_top=top,
            pad_left=left,
            down=down,
            along=along,
            ticket_rows=tickets.each,
        )
        return Plan((Tile("col2im_rows", desc, tickets.count),))


def _rows(q: Query[Col2Im]) -> int:
    return prod(q.outputs[0].shape[:-1])


def _row_seconds(q: Query[Col2Im]) -> float:
    p = q.primitive
    taps = prod(p.block) / square(p.strides)[0]
    vectors = -(-p.image[-1] // LANES) if p.strides[-1] == 1 else p.image[-1] // p.strides[-1]
    return (taps * (vectors + _RUN) + _RUN) * q.device.costs.unit("copy.vector")


def _tickets(q: Query[Col2Im]) -> TicketRanges:
    return runs(_rows(q), _row_seconds(q), q.device)
