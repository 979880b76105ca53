"""The tiles that copy a tensor and apply a list of elementwise operations to the copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clgraph.implementations.cpu.cost import runs, step_seconds
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    Surface,
    in_planes,
    out_planes,
    planes,
    surface,
)
from clgraph.implementations.cpu.pieces import pieces
from clgraph.implementations.cpu.rows import Axis, Rows, merge
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, PostStep, Ref, descriptor
from clgraph.selector.plan import Tile
from clgraph.selector.query import DeviceInfo, Query

PIECE = 128
"""Vectors of 16 floats that are copied before the list is applied to them: 8 KB stay in the first-level cache."""


@descriptor("copy_fsv16")
class CopyFsv16Desc(InPlanes, OutPlanes, Surface, Descriptor):
    """Fields as in ``copy_fsv16.cl``."""

    inp: Pointer
    out: Pointer
    blocks: Int
    lanes: Int
    piece: Int
    row_pieces: Int
    strips: Int
    strip_pieces: Int


@descriptor("copy_rows", library="moves", any_alignment=True)
class CopyRowsDesc(Descriptor):
    """Fields as in ``copy_rows.cl``."""

    inp: Pointer
    out: Pointer
    in_s: Long
    out_s: Long
    in_n: Long
    out_n: Long
    in_y: Int
    out_y: Int
    in_x: Int
    out_x: Int
    images: Int
    rows: Int
    width: Int
    piece: Int
    row_pieces: Int
    pieces: Int
    ticket_pieces: Int


def copy_fsv16(q: Query[Any], slot: int, post: tuple[PostStep, ...]) -> Tile:
    """Return the tile that copies blocked input *slot* of *q* to its result and applies *post*."""
    x, y = planes(q.inputs[slot]), planes(q.outputs[0])
    cut = pieces(x, y, post, PIECE, q.device.costs.unit("copy.vector") * (1 + len(post)), q.device)
    desc = CopyFsv16Desc(
        inp=x.at(f"in{slot}"),
        out=y.at("out0"),
        **in_planes(x),
        **out_planes(y),
        **surface(cut.height, cut.width, y.halo),
        blocks=y.blocks,
        lanes=y.lanes,
        piece=PIECE,
        row_pieces=cut.row_pieces,
        strips=cut.strips.count,
        strip_pieces=cut.strips.each,
    )
    return Tile("copy_fsv16", desc, y.batch * y.blocks * cut.strips.count, post=post)


def copy_rows(q: Query[Any], slot: int, rows: Rows, post: tuple[PostStep, ...]) -> Tile:
    """Return the tile that copies plain input *slot* of *q* to its result and applies *post*."""
    inp, out = (Ref(f"in{slot}", 4 * q.inputs[slot].origin), Ref("out0", 4 * q.outputs[0].origin))
    return rows_tile(inp, out, rows, q.device, post)


def rows_tile(
    inp: Ref, out: Ref, rows: Rows, device: DeviceInfo, post: tuple[PostStep, ...] = (), sets: Axis | None = None
) -> Tile:
    """Return the tile that copies *rows* from *inp* to *out*, *sets* of them if there is no *post*, or applies that."""
    sets = sets or Axis(1, (0, 0))
    width = rows.width.size
    row_pieces = -(-width // (PIECE * LANES))
    pieces = sets.size * rows.images.size * rows.rows.size * row_pieces
    vector = device.costs.unit("copy.vector") * (1 + len(post))
    one = -(-min(width, PIECE * LANES) // LANES) * vector
    tickets = runs(pieces, one, device)
    desc = CopyRowsDesc(
        inp=inp,
        out=out,
        in_s=sets.pitches[0],
        out_s=sets.pitches[1],
        in_n=rows.images.pitches[0],
        out_n=rows.images.pitches[1],
        in_y=rows.rows.pitches[0],
        out_y=rows.rows.pitches[1],
        in_x=rows.width.pitches[0] if width > 1 else 1,
        out_x=rows.width.pitches[1] if width > 1 else 1,
        images=rows.images.size,
        rows=rows.rows.size,
        width=width,
        piece=PIECE * LANES,
        row_pieces=row_pieces,
        pieces=pieces,
        ticket_pieces=tickets.each,
    )
    return Tile("copy_rows", desc, tickets.count, post=post)


LINE_BYTES = 64
"""What comes from memory with one element."""


def rows_step_seconds(tile: Tile, device: DeviceInfo) -> float:
    """Estimate a step of rows that are copied without a list: each row begun, its elements moved one by one or not."""
    desc, costs = tile.descriptor, device.costs
    assert isinstance(desc, CopyRowsDesc)
    count = desc.pieces // desc.row_pieces * desc.width
    spread = desc.in_x != 1 or desc.out_x != 1
    each = [min(4 * abs(pitch), LINE_BYTES) for pitch in (desc.in_x, desc.out_x)]
    work = desc.pieces * costs.unit("move.row") + count * (costs.unit("move.element") if spread else 0.0)
    moved = float(count * sum(each))
    return step_seconds(device, work + moved * costs.unit("move.byte"), moved, tile.tickets)


MOST_COPIES = 16
"""Steps that one move may take."""


def copies(inp: Ref, out: Ref, axes: Sequence[Axis], device: DeviceInfo) -> tuple[Tile, ...] | str:
    """Return the tiles that move elements along *axes* (pitches of input, then result), or why there are none.

    Neighbours that stay neighbours are copied by vectors. A fifth axis, if short, becomes a tile an index.
    """
    found = merge(axes)
    one = Axis(1, (0, 0))
    width = found.pop() if found else one
    rows, images = (found.pop() if found else one), (found.pop() if found else one)
    sets, outer = (found.pop() if found else one), (found.pop() if found else one)
    if found or outer.size > MOST_COPIES:
        return f"copies rows along four axes and at most {MOST_COPIES} times, and this needs more"
    starts = [(4 * i * outer.pitches[0], 4 * i * outer.pitches[1]) for i in range(outer.size)]
    each = Rows(images, rows, width)
    return tuple(
        rows_tile(Ref(inp.role, inp.offset + a), Ref(out.role, out.offset + b), each, device, (), sets)
        for a, b in starts
    )
