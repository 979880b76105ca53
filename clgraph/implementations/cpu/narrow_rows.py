"""The tile that applies elementwise operations to plain tensors of few elements a row."""

from __future__ import annotations

from typing import Any

from clgraph.implementations.cpu.cost import runs
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.rows import Rows
from clgraph.selector.descriptor import Descriptor, Int, Pointer, PostStep, Ref, descriptor
from clgraph.selector.plan import Tile
from clgraph.selector.post import post_codes
from clgraph.selector.query import Query

EACH = 2 * LANES
"""Rows of a piece: whole vectors whatever the width."""

_MOST = 8 * LANES
"""Elements of a row. Of 64, with a number for each row, they take 0.45 of the time of rows of their own, of 128 0.7."""

_STEP_BYTES = 64
"""The step that scratch begins with."""

_OTHERS = ("add_scaled", "note_max", "note_min")
"""Operations whose operands are no floats that belong to elements."""


@descriptor("copy_narrow_rows", any_alignment=True)
class CopyNarrowRowsDesc(Descriptor):
    """Fields as in ``copy_narrow_rows.cl``."""

    inp: Pointer
    out: Pointer
    lines: Int
    rows: Int
    width: Int
    each: Int
    pieces: Int
    ticket_pieces: Int


def is_narrow(rows: Rows, post: tuple[PostStep, ...]) -> bool:
    """Whether input and result lie row behind row, all of few elements, and *post* can be applied to them as one."""
    width, height = rows.width.size, rows.rows.size
    dense = all(
        (rows.width.pitches[i], rows.rows.pitches[i]) == (1, width)
        and (rows.images.size == 1 or rows.images.pitches[i] == width * height)
        for i in (0, 1)
    )
    return dense and 1 < width <= _MOST and is_elementwise(post)


def is_elementwise(post: tuple[PostStep, ...]) -> bool:
    """Whether all of the list is of floats that belong to elements."""
    others = {post_codes()[name] for name in _OTHERS}
    return not any(step.code in others for step in post)


def narrow_scratch(width: int) -> int:
    """Return the bytes of scratch in which the list is applied to a piece of rows of *width* floats."""
    return _STEP_BYTES + 4 * (EACH * width + 2 * LANES)


def narrow_rows(q: Query[Any], slot: int, rows: Rows, post: tuple[PostStep, ...]) -> Tile:
    """Return the tile that copies plain input *slot* of *q*, which :func:`is_narrow`, and applies *post*."""
    lines, width = rows.images.size * rows.rows.size, rows.width.size
    pieces = -(-lines // EACH)
    tickets = runs(pieces, EACH * width / LANES * q.device.costs.unit("copy.vector") * (1 + 2 * len(post)), q.device)
    desc = CopyNarrowRowsDesc(
        inp=Ref(f"in{slot}", 4 * q.inputs[slot].origin),
        out=Ref("out0", 4 * q.outputs[0].origin),
        lines=lines,
        rows=rows.rows.size,
        width=width,
        each=EACH,
        pieces=pieces,
        ticket_pieces=tickets.each,
    )
    return Tile("copy_narrow_rows", desc, tickets.count, scratch=narrow_scratch(width), post=post)
