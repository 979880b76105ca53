"""Concatenation of bytes in blocks along their channels on CPU devices with VNNI, whose products read them."""

from __future__ import annotations

from clgraph.implementations.cpu.byte_copies import HANDS_ON, blocked_bytes, copied_seconds
from clgraph.implementations.cpu.concat_blocks import channels_refusal
from clgraph.implementations.cpu.copies import PIECE
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    Planes,
    in_planes,
    out_planes,
    planes,
)
from clgraph.implementations.cpu.pieces import pieces
from clgraph.ops.concat import Concat
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import DeviceInfo, Query


@descriptor("concat_bytes", library="bytes")
class ConcatBytesDesc(InPlanes, OutPlanes, Descriptor):
    """Fields as in ``concat_bytes.cl``."""

    inp: Pointer
    out: Pointer
    in_blocks: Int
    height: Int
    width: Int
    shift: Int
    blocks: Int
    piece: Int
    row_pieces: Int
    strips: Int
    strip_pieces: Int


@implements(Concat, name="concat.bytes_fsv16", serves=HANDS_ON)
class ConcatBytes(Implementation[Concat]):
    """Each input copied to its channels, shifted by lanes where it begins inside a block."""

    @classmethod
    def limits(cls, q: Query[Concat]) -> str | None:
        return channels_refusal(q)

    @classmethod
    def formats(cls, q: Query[Concat]) -> tuple[Formats, ...]:
        return blocked_bytes(q)

    @classmethod
    def cost(cls, q: Query[Concat]) -> float:
        return copied_seconds(q, 2) + (q.arity - 1) * q.device.costs.step_seconds

    @classmethod
    def plan(cls, q: Query[Concat]) -> Plan:
        y, start = planes(q.outputs[0]), 0
        steps: list[Tile] = []
        for slot, layout in enumerate(q.own):
            x = planes(layout)
            if x.channels:
                steps.append(_part(q.device, slot, x, y, start))
            start += x.channels
        return Plan(tuple(steps))


def _part(device: DeviceInfo, slot: int, x: Planes, y: Planes, start: int) -> Tile:
    """Return the tile that copies input *slot* to the channels from *start* on."""
    first, end = start // LANES, start + x.channels
    blocks = -(-end // LANES) - first
    cut = pieces(x, y, (), PIECE, device.costs.unit("copy.vector"), device, blocks)
    out = y.at("out0")
    desc = ConcatBytesDesc(
        inp=x.at(f"in{slot}"),
        out=Ref(out.role, out.offset + first * y.c),
        **in_planes(x),
        in_blocks=x.blocks,
        **out_planes(y),
        height=cut.height,
        width=cut.width,
        shift=start % LANES,
        blocks=blocks,
        piece=PIECE,
        row_pieces=cut.row_pieces,
        strips=cut.strips.count,
        strip_pieces=cut.strips.each,
    )
    return Tile("concat_bytes", desc, y.batch * blocks * cut.strips.count, scratch=PIECE * 2 * LANES)
