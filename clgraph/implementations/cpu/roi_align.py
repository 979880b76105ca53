"""Means or maxima of samples of regions of images on CPU devices."""

from __future__ import annotations

from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.regions import ByRegions, RegionFields
from clgraph.ops.roi_align import RoiAlign
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_TYPES = frozenset({DType.F32, DType.I64})


@descriptor("roi_align_rows", library="rare", any_alignment=True)
class RoiAlignRowsDesc(RegionFields, Descriptor):
    """Fields as in ``roi_align_rows.cl``."""

    images: Pointer
    samples: Int
    centred: Int
    maximum: Int


@implements(RoiAlign, name="roi_align.rows", serves=Serves(dtypes=_TYPES, kinds=frozenset({"cpu"}), mixed=True))
class RoiAlignRows(ByRegions[RoiAlign]):
    """Rows are mixed in vectors, then columns."""

    block: ClassVar[int] = 16

    @classmethod
    def limits(cls, q: Query[RoiAlign]) -> str | None:
        if tuple(v.dtype for v in q.inputs[:3]) != (DType.F32, DType.F32, DType.I64):
            return "requires regions of floats of an image of floats"
        return super().limits(q)

    @classmethod
    def plan(cls, q: Query[RoiAlign]) -> Plan:
        f = q.primitive
        tickets, regions = cls.cut(q, f.scale)
        desc = RoiAlignRowsDesc(
            **regions, images=Ref("in2"), samples=f.samples, centred=int(f.half_pixel), maximum=int(f.maximum)
        )
        return Plan((Tile("roi_align_rows", desc, tickets),))
