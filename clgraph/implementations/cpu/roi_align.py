"""Regions of images as small images on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.ops.roi_align import RoiAlign
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Serves, implements, roofline
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

_WIDTH = 2048
"""Columns of the kernel's row."""

_CHANNELS = 16
"""Of a work-item, for which a region's samples are found once."""

_SHARE = 0.05
"""Of the peak. An estimate."""

_TYPES = frozenset({DType.F32, DType.I64})


@implements(RoiAlign, name="roi_align.rows", serves=Serves(dtypes=_TYPES, kinds=frozenset({"cpu"}), mixed=True))
class RoiAlignRows(General[RoiAlign]):
    """A work-item makes means or maxima of sixteen channels of a region: rows are mixed in vectors, then columns."""

    @classmethod
    def further_limits(cls, q: Query[RoiAlign]) -> str | None:
        x, regions, images = q.own
        if (x.dtype, regions.dtype, images.dtype) != (DType.F32, DType.F32, DType.I64):
            return "requires regions of floats of an image of floats"
        if not x.count or x.shape[3] > _WIDTH:
            return f"requires an image of at most {_WIDTH} columns"
        dense = all(v.is_dense_plain for v in (*q.own, *q.outputs))
        return None if dense else "requires tensors without gaps"

    @classmethod
    def cost(cls, q: Query[RoiAlign]) -> float:
        return roofline(q, _SHARE)

    @classmethod
    def plan(cls, q: Query[RoiAlign]) -> Plan:
        x, (y,), f = q.own[0].shape, q.outputs, q.primitive
        blocks = -(-x[1] // _CHANNELS)
        numbers = table([blocks, _CHANNELS, *x[1:], *f.size, f.samples, int(f.half_pixel), x[0], int(f.maximum)])
        arguments = ("in0", "in1", "in2", "out0", numbers, f.scale)
        return Plan((launch("roi_align/roi_align_rows", Jit(), y.shape[0] * blocks, *arguments),))
