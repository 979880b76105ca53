"""Regions of images as small images on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, runs
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.ops.roi_align import RoiAlign
from clgraph.selector.descriptor import Descriptor, Float, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements, roofline
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_WIDTH = 2048
"""Columns of the kernel's row."""

_CHANNELS = 16
"""Of a block, for which a region's samples are found once."""

_SHARE = 0.05
"""Of the peak. An estimate."""

_TYPES = frozenset({DType.F32, DType.I64})


@descriptor("roi_align_rows", library="rare", any_alignment=True)
class RoiAlignRowsDesc(Descriptor):
    """Fields as in ``roi_align_rows.cl``."""

    inp: Pointer
    regions: Pointer
    images: Pointer
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
    samples: Int
    centred: Int
    maximum: Int
    scale: Float
    ticket_blocks: Int


@implements(RoiAlign, name="roi_align.rows", serves=Serves(dtypes=_TYPES, kinds=frozenset({"cpu"}), mixed=True))
class RoiAlignRows(Implementation[RoiAlign]):
    """A ticket makes means or maxima of sixteen channels of some regions: rows are mixed in vectors, then columns."""

    @classmethod
    def limits(cls, q: Query[RoiAlign]) -> str | None:
        x, regions, images = q.inputs[:3]
        if (x.dtype, regions.dtype, images.dtype) != (DType.F32, DType.F32, DType.I64):
            return "requires regions of floats of an image of floats"
        if not x.count or x.shape[3] > _WIDTH:
            return f"requires an image of at most {_WIDTH} columns"
        dense = all(v.is_dense_plain for v in (*q.inputs, *q.outputs))
        return count_refusal(q) if dense else "requires tensors without gaps"

    @classmethod
    def cost(cls, q: Query[RoiAlign]) -> float:
        return roofline(q, _SHARE)

    @classmethod
    def plan(cls, q: Query[RoiAlign]) -> Plan:
        x, (y,), f = q.inputs[0].shape, q.outputs, q.primitive
        blocks, tickets = -(-x[1] // _CHANNELS), _tickets(q)
        desc = RoiAlignRowsDesc(
            inp=Ref("in0"),
            regions=Ref("in1"),
            images=Ref("in2"),
            out=Ref("out0"),
            pictures=x[0],
            channels=x[1],
            height=x[2],
            width=x[3],
            rows=f.size[0],
            columns=f.size[1],
            block=_CHANNELS,
            blocks=blocks,
            count=y.shape[0] * blocks,
            samples=f.samples,
            centred=int(f.half_pixel),
            maximum=int(f.maximum),
            scale=f.scale,
            ticket_blocks=tickets.each,
        )
        return Plan((Tile("roi_align_rows", desc, tickets.count),))


def _tickets(q: Query[RoiAlign]) -> TicketRanges:
    count = max(q.outputs[0].shape[0] * -(-q.inputs[0].shape[1] // _CHANNELS), 1)
    return runs(count, roofline(q, _SHARE) / count, q.device)
