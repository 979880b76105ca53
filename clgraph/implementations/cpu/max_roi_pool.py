"""Maxima of bins of regions of images on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, runs
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.ops.roi_align import MaxRoiPool
from clgraph.selector.descriptor import Descriptor, Float, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements, roofline
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_WIDTH = 2048
"""Columns of the kernel's row."""
_BINS = 64
"""Bins beside one another whose places the kernel notes."""

_CHANNELS = 8
"""Of a block, for which a region's bins are found once."""

_SHARE = 0.05
"""Of the peak. An estimate."""


@descriptor("max_roi_pool_rows", library="rare", any_alignment=True)
class MaxRoiPoolRowsDesc(Descriptor):
    """Fields as in ``max_roi_pool_rows.cl``."""

    inp: Pointer
    regions: Pointer
    out: Pointer
    pictures: Int
    channels: Int
    height: Int
    width: Int
    rows: Int
    columns: Int
    block: Int
    blocks: Int
    count: Int
    scale: Float
    ticket_blocks: Int


@implements(
    MaxRoiPool, name="max_roi_pool.rows", serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"}))
)
class MaxRoiPoolRows(Implementation[MaxRoiPool]):
    """A ticket makes the maxima of eight channels of some regions: rows are compared in vectors, then columns."""

    @classmethod
    def limits(cls, q: Query[MaxRoiPool]) -> str | None:
        x, y = q.inputs[0], q.outputs[0]
        if not x.count or x.shape[3] > _WIDTH or y.shape[3] > _BINS:
            return f"requires an image of at most {_WIDTH} columns, and at most {_BINS} bins beside one another"
        dense = all(v.is_dense_plain for v in (*q.inputs, *q.outputs))
        return count_refusal(q) if dense else "requires tensors without gaps"

    @classmethod
    def cost(cls, q: Query[MaxRoiPool]) -> float:
        return roofline(q, _SHARE)

    @classmethod
    def plan(cls, q: Query[MaxRoiPool]) -> Plan:
        x, y = q.inputs[0].shape, q.outputs[0].shape
        blocks, tickets = -(-x[1] // _CHANNELS), _tickets(q)
        desc = MaxRoiPoolRowsDesc(
            inp=Ref("in0"),
            regions=Ref("in1"),
            out=Ref("out0"),
            pictures=x[0],
            channels=x[1],
            height=x[2],
            width=x[3],
            rows=y[2],
            columns=y[3],
            block=_CHANNELS,
            blocks=blocks,
            count=y[0] * blocks,
            scale=q.primitive.scale,
            ticket_blocks=tickets.each,
        )
        return Plan((Tile("max_roi_pool_rows", desc, tickets.count),))


def _tickets(q: Query[MaxRoiPool]) -> TicketRanges:
    count = max(q.outputs[0].shape[0] * -(-q.inputs[0].shape[1] // _CHANNELS), 1)
    return runs(count, roofline(q, _SHARE) / count, q.device)
