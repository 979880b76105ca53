"""Video frames as RGB on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, row_strips, step_seconds, ticket_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.nv12_to_rgb import Nv12ToRgb
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_VECTORS = 4
"""Vectors that sixteen pixels take the time of."""


@descriptor("nv12_to_rgb_rows", library="rare", any_alignment=True)
class Nv12ToRgbRowsDesc(Descriptor):
    """Fields as in ``nv12_to_rgb_rows.cl``."""

    luma: Pointer
    chroma: Pointer
    out: Pointer
    luma_n: Long
    chroma_n: Long
    out_n: Long
    pairs: Int
    width: Int
    strips: Int
    strip_pairs: Int
    offset: Int
    bright: Int
    red: Int
    green: Int
    green_cb: Int
    blue: Int


def _pair_seconds(q: Query[Nv12ToRgb]) -> float:
    """Return the time of two rows."""
    return 2 * q.outputs[0].shape[2] / LANES * _VECTORS * q.device.costs.unit("copy.vector")


def _strips(q: Query[Nv12ToRgb]) -> TicketRanges:
    n, height, width, _ = q.outputs[0].shape
    pair = _pair_seconds(q)
    return row_strips(height // 2, 2 * width, pair, n, ticket_seconds(pair * height / 2 * n, q.device), q.device)


@implements(
    Nv12ToRgb,
    name="nv12_to_rgb.rows",
    serves=Serves(dtypes=frozenset({DType.U8}), kinds=frozenset({"cpu"})),
)
class Nv12ToRgbRows(Implementation[Nv12ToRgb]):
    """Sixteen pixels of two rows at a time."""

    @classmethod
    def limits(cls, q: Query[Nv12ToRgb]) -> str | None:
        dense = all(x.is_dense_plain for x in (*q.own, *q.outputs))
        return None if dense else "requires frames and images side by side"

    @classmethod
    def cost(cls, q: Query[Nv12ToRgb]) -> float:
        n, height, _, _ = q.outputs[0].shape
        moved = q.outputs[0].nbytes * 3 // 2
        return step_seconds(q.device, n * height / 2 * _pair_seconds(q), moved, n * _strips(q).count)

    @classmethod
    def plan(cls, q: Query[Nv12ToRgb]) -> Plan:
        n, height, width, _ = q.outputs[0].shape
        strips, two, luma = _strips(q), len(q.own) > 1, height * width
        frame = luma if two else 3 * luma // 2
        offset, bright, red, green, green_cb, blue = q.primitive.factors()
        desc = Nv12ToRgbRowsDesc(
            luma=Ref("in0"),
            chroma=Ref("in1") if two else Ref("in0", luma),
            out=Ref("out0"),
            luma_n=frame,
            chroma_n=luma // 2 if two else frame,
            out_n=3 * luma,
            pairs=height // 2,
            width=width,
            strips=strips.count,
            strip_pairs=strips.each,
            offset=offset,
            bright=bright,
            red=red,
            green=green,
            green_cb=green_cb,
            blue=blue,
        )
        return Plan((Tile("nv12_to_rgb_rows", desc, n * strips.count),))
