"""Maxima of bins of regions of images on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.ops.roi_align import MaxRoiPool
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Serves, implements, roofline
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

_WIDTH = 2048
"""Columns of the kernel's row."""
_BINS = 64
"""Bins beside one another whose places the kernel notes."""

_CHANNELS = 8
"""Of a work-item, for which a region's bins are found once."""

_SHARE = 0.05
"""Of the peak. An estimate."""


@implements(
    MaxRoiPool, name="max_roi_pool.rows", serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"}))
)
class MaxRoiPoolRows(General[MaxRoiPool]):
    """A work-item makes the maxima of eight channels of a region: rows are compared in vectors, then columns."""

    @classmethod
    def further_limits(cls, q: Query[MaxRoiPool]) -> str | None:
        x, y = q.own[0], q.outputs[0]
        if not x.count or x.shape[3] > _WIDTH or y.shape[3] > _BINS:
            return f"requires an image of at most {_WIDTH} columns, and at most {_BINS} bins beside one another"
        dense = all(v.is_dense_plain for v in (*q.own, *q.outputs))
        return None if dense else "requires tensors without gaps"

    @classmethod
    def cost(cls, q: Query[MaxRoiPool]) -> float:
        return roofline(q, _SHARE)

    @classmethod
    def plan(cls, q: Query[MaxRoiPool]) -> Plan:
        x, y = q.own[0].shape, q.outputs[0].shape
        blocks = -(-x[1] // _CHANNELS)
        numbers = table([blocks, _CHANNELS, *x[1:], *y[2:], x[0]])
        arguments = ("in0", "in1", "out0", numbers, q.primitive.scale)
        return Plan((launch("max_roi_pool/max_roi_pool_rows", Jit(), y[0] * blocks, *arguments),))
