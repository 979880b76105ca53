"""Maxima of windows of bytes whose channels come last on CPU devices."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import LANES, SlidingWindow, count_refusal, window
from clgraph.ops.pooling import Pooling
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_RANK = 5
_TAP = 0.25
"""Vectors of 16 floats that take as long as comparing 16 bytes."""


@descriptor("pool_channels", library="rare", any_alignment=True)
class PoolChannelsDesc(SlidingWindow, Descriptor):
    """Fields as in ``pool_channels.cl``."""

    inp: Pointer
    out: Pointer
    has_sign: Int
    in_height: Int
    in_width: Int
    height: Int
    width: Int
    pad_top: Int
    pad_left: Int
    inner: Int
    rows: Int
    ticket_rows: Int


@implements(
    Pooling,
    name="pooling.channels",
    serves=Serves(dtypes=frozenset({DType.I8, DType.U8}), kinds=frozenset({"cpu"})),
)
class PoolChannels(Implementation[Pooling]):
    """The window of a pixel at a time, 64 neighbours along the last axis side by side."""

    @classmethod
    def limits(cls, q: Query[Pooling]) -> str | None:
        p, x = q.primitive, q.inputs[0]
        if p.function != "max":
            return f"serves maxima, not {p.function}"
        if x.rank != _RANK or (p.kernel[-1], p.strides[-1], *p.pads[-1]) != (1, 1, 0, 0):
            return "serves windows over two axes with one more behind them"
        if not x.count or not all(t.is_dense_plain for t in (*q.inputs, *q.outputs)):
            return "serves dense plain tensors of some elements"
        return count_refusal(q)

    @classmethod
    def cost(cls, q: Query[Pooling]) -> float:
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, prod(q.outputs[0].shape[:3]) * _row_seconds(q), moved, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[Pooling]) -> Plan:
        p, x, y, tickets = q.primitive, q.inputs[0].shape, q.outputs[0].shape, _tickets(q)
        desc = PoolChannelsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            has_sign=int(q.inputs[0].dtype == DType.I8),
            in_height=x[2],
            in_width=x[3],
            height=y[2],
            width=y[3],
            pad_top=p.pads[0][0],
            pad_left=p.pads[1][0],
            inner=x[4],
            rows=prod(y[:3]),
            ticket_rows=tickets.each,
            **window(p.kernel, p.strides, p.dilations),
        )
        return Plan((Tile("pool_channels", desc, tickets.count),))


def _row_seconds(q: Query[Pooling]) -> float:
    vectors = q.outputs[0].shape[3] * (1 + -(-q.outputs[0].shape[4] // LANES) * prod(q.primitive.kernel) * _TAP)
    return vectors * q.device.costs.unit("copy.vector")


def _tickets(q: Query[Pooling]) -> TicketRanges:
    return runs(prod(q.outputs[0].shape[:3]), _row_seconds(q), q.device)
