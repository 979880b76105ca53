"""Maxima of bins of regions of images on CPU devices."""

from __future__ import annotations

from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.regions import ByRegions, RegionFields
from clgraph.ops.roi_align import MaxRoiPool
from clgraph.selector.descriptor import Descriptor, descriptor
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_BINS = 64
"""Bins beside one another whose places the kernel notes."""


@descriptor("max_roi_pool_rows", library="rare", any_alignment=True)
class MaxRoiPoolRowsDesc(RegionFields, Descriptor):
    """Fields as in ``max_roi_pool_rows.cl``."""


@implements(
    MaxRoiPool, name="max_roi_pool.rows", serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"}))
)
class MaxRoiPoolRows(ByRegions[MaxRoiPool]):
    """Rows are compared in vectors, then columns."""

    block: ClassVar[int] = 8

    @classmethod
    def limits(cls, q: Query[MaxRoiPool]) -> str | None:
        if q.outputs[0].shape[3] > _BINS:
            return f"requires at most {_BINS} bins beside one another"
        return super().limits(q)

    @classmethod
    def plan(cls, q: Query[MaxRoiPool]) -> Plan:
        tickets, regions = cls.cut(q, q.primitive.scale)
        return Plan((Tile("max_roi_pool_rows", MaxRoiPoolRowsDesc(**regions), tickets),))
