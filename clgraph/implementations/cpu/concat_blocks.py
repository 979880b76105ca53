"""Concatenation of blocked tensors along their channels on CPU devices, whatever their numbers of channels."""

from __future__ import annotations

from clgraph.core.format import feature_blocked
from clgraph.implementations.cpu.blocked import TILE, operand_proposals
from clgraph.implementations.cpu.copies import PIECE
from clgraph.implementations.cpu.cost import step_seconds
from clgraph.implementations.cpu.fused_operations import blocked_posts, post_refusal
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    Planes,
    Surface,
    blocked_refusal,
    in_planes,
    out_planes,
    planes,
    surface,
)
from clgraph.implementations.cpu.pieces import pieces
from clgraph.ops.concat import Concat
from clgraph.selector.descriptor import Descriptor, Int, Pointer, PostStep, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import DeviceInfo, Query


@descriptor("concat_fsv16", library="direct")
class ConcatFsv16Desc(InPlanes, OutPlanes, Surface, Descriptor):
    """Fields as in ``concat_fsv16.cl``."""

    inp: Pointer
    out: Pointer
    in_blocks: Int
    shift: Int
    first: Int
    blocks: Int
    lanes: Int
    closes: Int
    piece: Int
    row_pieces: Int
    strips: Int
    strip_pieces: Int


def channels_refusal(q: Query[Concat]) -> str | None:
    """Say why not channels in blocks are joined to such, or return ``None``."""
    if q.primitive.axis != 1:
        return f"joins channels, not axis {q.primitive.axis}"
    refused = (blocked_refusal(x, f"input {i}") for i, x in enumerate(q.own))
    return next(filter(None, refused), None) or blocked_refusal(q.outputs[0], "the result")


@implements(Concat, name="concat.fsv16", serves=TILE)
class ConcatFsv16(Implementation[Concat]):
    """Each input copied to its channels, shifted by lanes where it begins inside a block."""

    @classmethod
    def limits(cls, q: Query[Concat]) -> str | None:
        return channels_refusal(q) or post_refusal(q)

    @classmethod
    def formats(cls, q: Query[Concat]) -> tuple[Formats, ...]:
        blocked = feature_blocked(q.outputs[0].rank)
        if q.outputs[0].rank not in (3, 4):
            return ()
        return operand_proposals(q, (blocked,) * q.arity, range(q.arity, len(q.inputs)), blocked, q.outputs[0])

    @classmethod
    def cost(cls, q: Query[Concat]) -> float:
        moved = 2 * q.outputs[0].nbytes
        vectors = q.outputs[0].nbytes / 4 / LANES * len(q.post) * q.device.costs.unit("copy.vector")
        work = moved * q.device.costs.unit("move.byte") + vectors
        one = step_seconds(q.device, work, moved, 8 * q.device.workers)
        return one + (q.arity - 1) * q.device.costs.step_seconds

    @classmethod
    def plan(cls, q: Query[Concat]) -> Plan:
        y, post, start = planes(q.outputs[0]), blocked_posts(q), 0
        steps: list[Tile] = []
        for slot, layout in enumerate(q.own):
            x = planes(layout)
            if x.channels:
                steps.append(_part(q.device, slot, x, y, start, post))
            start += x.channels
        return Plan(tuple(steps))


def _part(device: DeviceInfo, slot: int, x: Planes, y: Planes, start: int, post: tuple[PostStep, ...]) -> Tile:
    """Return the tile that copies input *slot* to the channels from *start* on."""
    first, end = start // LANES, start + x.channels
    blocks = -(-end // LANES) - first
    cut = pieces(x, y, post, PIECE, device.costs.unit("copy.vector") * (2 + len(post)), device, blocks)
    out = y.at("out0")
    desc = ConcatFsv16Desc(
        inp=x.at(f"in{slot}"),
        out=Ref(out.role, out.offset + 4 * first * y.c),
        **in_planes(x),
        in_blocks=x.blocks,
        **out_planes(y),
        **surface(cut.height, cut.width, y.halo),
        shift=start % LANES,
        first=first,
        blocks=blocks,
        lanes=y.lanes if end == y.channels else LANES,
        closes=int(end == y.channels or end % LANES == 0),
        piece=PIECE,
        row_pieces=cut.row_pieces,
        strips=cut.strips.count,
        strip_pieces=cut.strips.each,
    )
    return Tile("concat_fsv16", desc, y.batch * blocks * cut.strips.count, scratch=PIECE * 2 * LANES * 4, post=post)
