"""Nearest pixels of bytes in blocks on CPU devices with VNNI, whose products read them."""

from __future__ import annotations

from clgraph.implementations.cpu.byte_copies import HANDS_ON, blocked_bytes, copied_seconds, strips_of
from clgraph.implementations.cpu.geometry import LANES, InPlanes, OutPlanes, in_planes, out_planes, planes
from clgraph.implementations.cpu.resize_map import ResizeMap, planes_refusal, resize_map, rule_refusal
from clgraph.ops.resize import Resize
from clgraph.selector.descriptor import Descriptor, Int, Pointer, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("resize_bytes", library="bytes")
class ResizeBytesDesc(InPlanes, OutPlanes, ResizeMap, Descriptor):
    """Fields as in ``resize_bytes.cl``."""

    inp: Pointer
    out: Pointer
    in_height: Int
    in_width: Int
    height: Int
    width: Int
    blocks: Int
    strips: Int
    strip_rows: Int


@implements(Resize, name="resize.bytes_fsv16", serves=HANDS_ON)
class ResizeBytes(Implementation[Resize]):
    """A block of 16 channels a pixel; the columns' taps once a ticket."""

    @classmethod
    def limits(cls, q: Query[Resize]) -> str | None:
        return rule_refusal(q.primitive, ("nearest",)) or planes_refusal(q)

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
            **resize_map(q, 2 if q.outputs[0].rank == 4 else None, q.outputs[0].rank - 1),
            blocks=y.blocks,
            strips=strips.count,
            strip_rows=strips.each,
        )
        return Plan(
            (Tile("resize_bytes", desc, y.batch * y.blocks * strips.count, scratch=4 * -(-y.width // LANES) * LANES),)
        )
