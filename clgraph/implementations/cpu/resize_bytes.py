"""Nearest pixels of bytes in blocks on CPU devices with VNNI, whose products read them."""

from __future__ import annotations

from clgraph.implementations.cpu.byte_copies import HANDS_ON, blocked_bytes, copied_seconds, strips_of
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    blocked_refusal,
    in_planes,
    out_planes,
    planes,
)
from clgraph.implementations.cpu.resize import COORDINATES, RULES, coordinate_fields
from clgraph.ops.resize import Resize
from clgraph.selector.descriptor import Descriptor, Float, Int, Pointer, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("resize_bytes", library="bytes")
class ResizeBytesDesc(InPlanes, OutPlanes, Descriptor):
    """Fields as in ``resize_bytes.cl``."""

    inp: Pointer
    out: Pointer
    in_height: Int
    in_width: Int
    height: Int
    width: Int
    rule: Int
    blocks: Int
    strips: Int
    strip_rows: Int
    middle: Float
    factor_y: Float
    divisor_y: Float
    offset_y: Float
    factor_x: Float
    divisor_x: Float
    offset_x: Float


@implements(Resize, name="resize.bytes_fsv16", serves=HANDS_ON)
class ResizeBytes(Implementation[Resize]):
    """A block of 16 channels a pixel; the columns' taps once a ticket."""

    @classmethod
    def limits(cls, q: Query[Resize]) -> str | None:
        p, x, y = q.primitive, q.inputs[0], q.outputs[0]
        if p.mode != "nearest" or p.coordinates not in COORDINATES or p.nearest not in RULES:
            return f"serves nearest, not {p.mode} with {p.coordinates} and {p.nearest}"
        if x.shape[:2] != y.shape[:2] or any(s != 1 for s in p.scales[:2]):
            return "resizes rows and columns alone"
        return blocked_refusal(x, "the input") or blocked_refusal(y, "the result")

    @classmethod
    def formats(cls, q: Query[Resize]) -> tuple[Formats, ...]:
        return blocked_bytes(q)

    @classmethod
    def cost(cls, q: Query[Resize]) -> float:
        return copied_seconds(q)

    @classmethod
    def plan(cls, q: Query[Resize]) -> Plan:
        x, y, strips = planes(q.inputs[0]), planes(q.outputs[0]), strips_of(q)
        desc = ResizeBytesDesc(
            inp=x.at("in0"),
            out=y.at("out0"),
            **in_planes(x),
            **out_planes(y),
            in_height=x.height,
            in_width=x.width,
            height=y.height,
            width=y.width,
            **coordinate_fields(q),
            blocks=y.blocks,
            strips=strips.count,
            strip_rows=strips.each,
        )
        return Plan(
            (Tile("resize_bytes", desc, y.batch * y.blocks * strips.count, scratch=4 * -(-y.width // LANES) * LANES),)
        )
