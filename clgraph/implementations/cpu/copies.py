"""The tiles that copy a tensor and apply a list of elementwise operations to the copy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.cost import split, step_seconds, ticket_seconds
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


@descriptor("copy_rows")
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
    rows_alike = all(row == pixel * y.width for _, _, row, pixel, _ in (step.pitches for step in post))
    flat = x.one_row and y.one_row and not any(y.halo) and rows_alike
    height, width = (1, y.height * y.width) if flat else (y.height, y.width)
    row_pieces = -(-width // PIECE)
    one = min(width, PIECE) * q.device.costs.unit("copy.vector") * (1 + len(post))
    wanted = ticket_seconds(one * row_pieces * height * y.batch * y.blocks, q.device)
    strips = split(height * row_pieces, one, wanted, 1)
    desc = CopyFsv16Desc(
        inp=x.at(f"in{slot}"),
        out=y.at("out0"),
        **in_planes(x),
        **out_planes(y),
        **surface(height, width, y.halo),
        blocks=y.blocks,
        lanes=y.lanes,
        piece=PIECE,
        row_pieces=row_pieces,
        strips=strips.count,
        strip_pieces=strips.each,
    )
    return Tile("copy_fsv16", desc, y.batch * y.blocks * strips.count, post=post)


@frozen
class Axis:
    """One axis of a loop nest: its size and the pitch of every tensor along it."""

    size: int
    pitches: tuple[int, ...]


def merge(axes: Sequence[Axis]) -> list[Axis]:
    """Return *axes* without those of size 1, neighbours merged where every tensor walks them as one."""
    merged: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if merged and all(o == axis.size * i for o, i in zip(merged[-1].pitches, axis.pitches, strict=True)):
            merged[-1] = Axis(merged[-1].size * axis.size, axis.pitches)
        else:
            merged.append(axis)
    return merged


def broadcast_pitches(layout: Layout, rank: int) -> tuple[int, ...]:
    """Return the pitch along each of the last *rank* axes, 0 where the tensor has none or size 1."""
    own = tuple(p if s > 1 else 0 for s, p in zip(layout.shape, layout.all_pitches, strict=True))
    return (*(0,) * (rank - layout.rank), *own)


@frozen
class Rows:
    """Plain tensors as [images][rows][width]; pitches of the input, the result, then each operand."""

    images: Axis
    rows: Axis
    width: Axis


def as_rows(q: Query[Any], slot: int, operands: Sequence[int], within: int = 0) -> Rows | str:
    """Return input *slot*, the result and the *operands* as rows, or why they are none.

    The input and the result lie plain, the elements of a row side by side.

    Args:
        within: The first axis that a row may hold; those before are rows and images.
    """
    x, y = q.inputs[slot], q.outputs[0]
    tensors = [broadcast_pitches(x, y.rank), y.all_pitches, *(broadcast_pitches(q.inputs[s], y.rank) for s in operands)]
    nest = [Axis(size, tuple(t[i] for t in tensors)) for i, size in enumerate(y.shape)]
    axes = [*merge(nest[:within]), *merge(nest[within:])]
    one = Axis(1, (0,) * len(tensors))
    width = axes.pop() if axes and axes[-1].pitches[:2] == (1, 1) and prod(y.shape[within:]) > 1 else one
    if len(axes) > 2:
        return "walks three axes, and these tensors need more"
    rows = axes.pop() if axes else one
    return Rows(axes.pop() if axes else one, rows, width)


def row_pitches(rows: Rows, operand: int) -> tuple[int, int, int, int, int]:
    """Return the fields of a post-operation step for operand number *operand*; x counts vectors of 16 floats."""
    n, y, last = (axis.pitches[2 + operand] for axis in (rows.images, rows.rows, rows.width))
    return n, 0, y, LANES * last, last


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
    tickets = split(pieces, one, ticket_seconds(one * pieces, device), device.workers)
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
