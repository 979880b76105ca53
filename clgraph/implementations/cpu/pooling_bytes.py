"""Maxima of windows of bytes in blocks on CPU devices with VNNI, whose products read them."""

from __future__ import annotations

from math import prod

from clgraph.implementations.cpu.blocked import square, square_pads
from clgraph.implementations.cpu.byte_copies import HANDS_ON, blocked_bytes, copied_seconds, strips_of
from clgraph.implementations.cpu.geometry import (
    InPlanes,
    OutPlanes,
    SlidingWindow,
    both_blocked_refusal,
    in_planes,
    out_planes,
    planes,
    window,
)
from clgraph.ops.pooling import Pooling
from clgraph.selector.descriptor import Descriptor, Int, Pointer, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("pool_bytes", library="bytes")
class PoolBytesDesc(InPlanes, OutPlanes, SlidingWindow, Descriptor):
    """Fields as in ``pool_bytes.cl``."""

    inp: Pointer
    out: Pointer
    in_height: Int
    in_width: Int
    height: Int
    width: Int
    pad_top: Int
    pad_left: Int
    blocks: Int
    strips: Int
    strip_rows: Int


@implements(Pooling, name="pooling.bytes_fsv16", serves=HANDS_ON)
class PoolBytes(Implementation[Pooling]):
    """A block of 16 channels a pixel, the window clipped to the input."""

    @classmethod
    def limits(cls, q: Query[Pooling]) -> str | None:
        if q.primitive.function != "max":
            return f"serves max, not {q.primitive.function}"
        return both_blocked_refusal(q)

    @classmethod
    def formats(cls, q: Query[Pooling]) -> tuple[Formats, ...]:
        return blocked_bytes(q)

    @classmethod
    def cost(cls, q: Query[Pooling]) -> float:
        return copied_seconds(q, prod(q.primitive.kernel))

    @classmethod
    def plan(cls, q: Query[Pooling]) -> Plan:
        x, y, p, strips = planes(q.inputs[0]), planes(q.outputs[0]), q.primitive, strips_of(q, prod(q.primitive.kernel))
        (top, _), (left, _) = square_pads(p.pads)
        desc = PoolBytesDesc(
            inp=x.at("in0"),
            out=y.at("out0"),
            **in_planes(x),
            **out_planes(y),
            in_height=x.height,
            in_width=x.width,
            height=y.height,
            width=y.width,
            **window(square(p.kernel), square(p.strides), square(p.dilations)),
            pad_top=top,
            pad_left=left,
            blocks=y.blocks,
            strips=strips.count,
            strip_rows=strips.each,
        )
        return Plan((Tile("pool_bytes", desc, y.batch * y.blocks * strips.count),))
