"""Between plain and blocked formats on CPU devices, and weights into the blocks that tiles read."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.copies import copy_fsv16
from clgraph.implementations.cpu.cost import TicketRanges, runs, split, step_seconds, ticket_seconds
from clgraph.implementations.cpu.fused_operations import blocked_posts, post_refusal
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    Planes,
    Surface,
    blocked_refusal,
    both_blocked_refusal,
    planes,
)
from clgraph.ops.reorder import Reorder
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

MOVES = Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"}), formats=True, halos=True)
MOVES_AND_FUSES = replace(MOVES, fuses=FUSABLE, operands=8)


@descriptor("block_fsv16", library="blocked", any_alignment=True)
class BlockFsv16Desc(InPlanes, OutPlanes, Surface, Descriptor):
    """Fields as in ``block_fsv16.cl``."""

    inp: Pointer
    out: Pointer
    blocks: Int
    lanes: Int
    strips: Int
    strip_rows: Int


@descriptor("unblock_fsv16")
class UnblockFsv16Desc(InPlanes, OutPlanes, Descriptor):
    """Fields as in ``unblock_fsv16.cl``."""

    inp: Pointer
    out: Pointer
    height: Int
    width: Int
    blocks: Int
    lanes: Int
    strips: Int
    strip_rows: Int


@descriptor("pack_blocks", library="weights", any_alignment=True)
class PackBlocksDesc(Descriptor):
    """Fields as in ``pack_blocks.cl``."""

    inp: Pointer
    out: Pointer
    pitch_0: Long
    pitch_1: Long
    pitch_2: Long
    pitch_3: Long
    size_0: Int
    size_1: Int
    size_2: Int
    size_3: Int
    block_0: Int
    block_1: Int
    block_2: Int
    block_3: Int
    order: Int
    inner: Int
    positions: Int
    ticket_positions: Int


def as_planes(layout: Layout) -> Planes:
    """Return how a plain tensor of rank 3 or 4 lies in memory: planes of single channels, pixels side by side."""
    pitch, rows = layout.all_pitches, layout.rank == 4
    width = layout.shape[-1]
    return Planes(
        batch=layout.shape[0],
        channels=layout.shape[1],
        height=layout.shape[2] if rows else 1,
        width=width,
        n=pitch[0],
        c=pitch[1],
        y=pitch[2] if rows else width,
        halo=(0, 0, 0, 0),
        origin=layout.origin,
    )


def _plain_refusal(layout: Layout, what: str) -> str | None:
    if not layout.format.is_plain or layout.rank not in (3, 4):
        return f"requires {what} plain with one or two spatial axes, not {layout}"
    if layout.all_pitches[-1] != 1:
        return f"requires the pixels of {what} side by side"
    return None


def _strips(q: Query[Any], blocks: int, height: int, width: int) -> TicketRanges:
    row = width * LANES * 8 * q.device.costs.unit("move.byte")
    wanted = ticket_seconds(row * height * blocks, q.device)
    return split(height, row, max(wanted, row * height * blocks / (16 * q.device.workers)), 1)


class _Mover(Implementation[Reorder]):
    """Moves elements between the layouts that the query has."""

    @classmethod
    def formats(cls, q: Query[Reorder]) -> tuple[Formats, ...]:
        """Return the formats the query has: a reorder is laid_out on the layouts it goes between."""
        return (Formats(tuple(x.format for x in q.inputs), tuple(y.format for y in q.outputs)),)

    @classmethod
    def cost(cls, q: Query[Reorder]) -> float:
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, moved * q.device.costs.unit("move.byte"), moved, 8 * q.device.workers)


def _flat(q: Query[Any], x: Planes, y: Planes, x_pixel: int, y_pixel: int) -> bool:
    """Whether both planes, of pixels of so many floats, are single rows, and no operand tells rows from pixels."""
    no_gaps = x.y == x.width * x_pixel and y.y == y.width * y_pixel
    return no_gaps and not q.post and not any(y.halo) and y.height > 1


def _geometry(q: Query[Any], x: Planes, y: Planes, flat: bool) -> dict[str, int]:
    height, width = (1, y.height * y.width) if flat else (y.height, y.width)
    strips = _strips(q, y.batch * y.blocks, height, width)
    return {
        "in_n": x.n,
        "in_c": x.c,
        "in_y": x.y,
        "out_n": y.n,
        "out_c": y.c,
        "out_y": y.y,
        "height": height,
        "width": width,
        "blocks": y.blocks,
        "lanes": y.lanes,
        "strips": strips.count,
        "strip_rows": strips.each,
    }


def _halo(y: Planes) -> dict[str, int]:
    return dict(zip(("top", "bottom", "left", "right"), y.halo, strict=True))


@implements(Reorder, name="reorder.block_fsv16", serves=MOVES_AND_FUSES)
class BlockFsv16(_Mover):
    """Plain to blocks of 16 channels, 16 by 16 elements at a time."""

    @classmethod
    def limits(cls, q: Query[Reorder]) -> str | None:
        return (
            _plain_refusal(q.inputs[0], "the input") or blocked_refusal(q.outputs[0], "the result") or post_refusal(q)
        )

    @classmethod
    def plan(cls, q: Query[Reorder]) -> Plan:
        x, y = as_planes(q.inputs[0]), planes(q.outputs[0])
        geometry = _geometry(q, x, y, _flat(q, x, y, 1, LANES))
        desc = BlockFsv16Desc(inp=Ref("in0", 4 * x.origin), out=y.at("out0"), **geometry, **_halo(y))
        return Plan((Tile("block_fsv16", desc, y.batch * y.blocks * geometry["strips"], post=blocked_posts(q)),))


@implements(Reorder, name="reorder.unblock_fsv16", serves=MOVES)
class UnblockFsv16(_Mover):
    """Blocks of 16 channels to plain, 16 by 16 elements at a time."""

    @classmethod
    def limits(cls, q: Query[Reorder]) -> str | None:
        if q.outputs[0].halo:
            return "writes no halo"
        return blocked_refusal(q.inputs[0], "the input") or _plain_refusal(q.outputs[0], "the result")

    @classmethod
    def plan(cls, q: Query[Reorder]) -> Plan:
        x, y = planes(q.inputs[0]), as_planes(q.outputs[0])
        geometry = _geometry(q, x, y, _flat(q, x, y, LANES, 1))
        desc = UnblockFsv16Desc(inp=x.at("in0"), out=Ref("out0", 4 * y.origin), **geometry)
        return Plan((Tile("unblock_fsv16", desc, y.batch * y.blocks * geometry["strips"]),))


@implements(Reorder, name="reorder.copy_fsv16", serves=MOVES_AND_FUSES)
class CopyFsv16(_Mover):
    """Blocks of 16 channels to the same with another halo."""

    @classmethod
    def limits(cls, q: Query[Reorder]) -> str | None:
        return both_blocked_refusal(q) or post_refusal(q)

    @classmethod
    def plan(cls, q: Query[Reorder]) -> Plan:
        return Plan((copy_fsv16(q, 0, blocked_posts(q)),))


@implements(Reorder, name="reorder.pack_blocks", serves=MOVES)
class PackBlocks(_Mover):
    """A plain tensor of up to four axes into blocks on any axes: weights, matrices and biases."""

    @classmethod
    def limits(cls, q: Query[Reorder]) -> str | None:
        x, y = q.inputs[0], q.outputs[0]
        if x.rank not in (1, 2, 3, 4) or not x.format.is_plain:
            return f"packs plain tensors of one to four axes, not {x}"
        if not y.format.blocks or y.halo or y.all_pitches != y.dense_pitches:
            return f"packs into dense blocks, not {y}"
        return None

    @classmethod
    def cost(cls, q: Query[Reorder]) -> float:
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, moved * q.device.costs.unit("pack.byte"), moved, 8 * q.device.workers)

    @classmethod
    def plan(cls, q: Query[Reorder]) -> Plan:
        x, format = q.inputs[0], q.outputs[0].format
        size = _four(x.shape, 1)
        block = _four(tuple(format.block(a) for a in range(x.rank)), 1)
        pitch = _four(x.all_pitches, 0)
        order = (*format.order, *range(x.rank, 4))
        blocked = tuple(a for a, _ in format.blocks)
        inner = (*(a for a in range(4) if a not in blocked), *blocked)
        positions = prod(-(-s // b) for s, b in zip(size, block, strict=True))
        volume = prod(block)
        one = volume * 8 * q.device.costs.unit("pack.byte")
        tickets = runs(positions, one, q.device)
        desc = PackBlocksDesc(
            Ref("in0", 4 * x.origin),
            Ref("out0"),
            *pitch,
            *size,
            *block,
            order=_nibbles(order),
            inner=_nibbles(inner),
            positions=positions,
            ticket_positions=tickets.each,
        )
        return Plan((Tile("pack_blocks", desc, tickets.count),))


def _four(values: tuple[int, ...], rest: int) -> tuple[int, int, int, int]:
    a, b, c, d = (*values, *(rest,) * (4 - len(values)))
    return a, b, c, d


def _nibbles(values: tuple[int, ...]) -> int:
    return sum(v << 4 * k for k, v in enumerate(values))
