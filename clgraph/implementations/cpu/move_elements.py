"""Elements of any type moved along any axes on CPU devices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import prod
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.cost import runs, step_seconds
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.implementations.cpu.rows import Axis, merge
from clgraph.selector.descriptor import NULL, Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import DeviceInfo, Query

ANY_ELEMENTS = Serves(dtypes=frozenset(DType), mixed=True, kinds=frozenset({"cpu"}))

AXES = 6
PIECE = 4096
"""Elements of a row that one piece moves."""

MOST_PARTS = 16
"""Steps that one move may take."""

ROW = 0.5
"""What going to the next row takes, in rows of ``copy_rows``, which divides for each: 9 of 20 ns (Zen 4)."""


@descriptor("move_elements", any_alignment=True)
class MoveElementsDesc(Descriptor):
    """Fields as in ``move_elements.cl``."""

    inp: Pointer
    out: Pointer
    value: Long
    in_0: Long
    in_1: Long
    in_2: Long
    in_3: Long
    in_4: Long
    in_5: Long
    out_0: Long
    out_1: Long
    out_2: Long
    out_3: Long
    out_4: Long
    out_5: Long
    itemsize: Int
    count_1: Int
    count_2: Int
    count_3: Int
    count_4: Int
    width: Int
    piece: Int
    row_pieces: Int
    pieces: Int
    ticket_pieces: Int


@frozen
class Move:
    """One view's elements to another.

    Attributes:
        inp, out: Where the views begin; no *inp* for a *value*, the bits of an element.
        axes: Sizes and pitches, of the input, then of the result, in elements.
    """

    inp: Ref | None
    out: Ref
    axes: tuple[Axis, ...]
    value: int = 0


class MovedElements(Implementation[Any]):
    """A step a part."""

    @classmethod
    @abstractmethod
    def moves(cls, q: Query[Any]) -> Sequence[Move]:
        """Return the parts, whose axes may be any number; in order, because a later one may write over an earlier."""

    @classmethod
    def refused(cls, q: Query[Any]) -> str | None:
        """Say why there are no moves for *q*, or return ``None``."""
        return None

    @classmethod
    def limits(cls, q: Query[Any]) -> str | None:
        if not all(x.is_dense_plain for x in (*q.inputs, *q.outputs)):
            return "moves dense plain tensors"
        if refused := cls.refused(q) or count_refusal(q):
            return refused
        found = cls.moves(q)
        if len(found) > MOST_PARTS:
            return f"moves at most {MOST_PARTS} parts, not {len(found)}"
        if (most := max((len(merge(m.axes)) for m in found), default=0)) > AXES:
            return f"walks {AXES} axes, not {most}"
        return None

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        return sum(move_seconds(m, q.outputs[0].dtype.itemsize, q.device) for m in cls.moves(q))

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        return Plan(tuple(move_tile(m, q.outputs[0].dtype.itemsize, q.device) for m in cls.moves(q)))


@frozen
class _Walk:
    """A move's axes, the last one the width, and how its rows are cut.

    Attributes:
        each: Seconds of a piece.
    """

    axes: tuple[Axis, ...]
    row_pieces: int
    pieces: int
    each: float


def _walk(move: Move, itemsize: int, device: DeviceInfo) -> _Walk:
    found = merge(move.axes)
    axes = (*[Axis(1, (0, 0))] * (AXES - len(found)), *found)
    width = axes[-1]
    row_pieces = -(-width.size // PIECE)
    count = min(width.size, PIECE)
    spread = sum(pitch not in (0, 1) for pitch in width.pitches)
    one = 2 * itemsize * device.costs.unit("move.byte") + spread * device.costs.unit("move.element")
    return _Walk(
        axes,
        row_pieces,
        prod(a.size for a in axes[:-1]) * row_pieces,
        ROW * device.costs.unit("move.row") + count * one,
    )


def move_seconds(move: Move, itemsize: int, device: DeviceInfo) -> float:
    """Estimate the step of *move*, of elements of *itemsize* bytes."""
    walk = _walk(move, itemsize, device)
    moved = 2.0 * itemsize * prod(a.size for a in walk.axes)
    return step_seconds(device, walk.pieces * walk.each, moved, 8 * device.workers)


def move_tile(move: Move, itemsize: int, device: DeviceInfo) -> Tile:
    """Return the tile of *move*, of elements of *itemsize* bytes."""
    walk = _walk(move, itemsize, device)
    tickets = runs(walk.pieces, walk.each, device)
    desc = MoveElementsDesc(
        inp=move.inp or NULL,
        out=move.out,
        value=move.value,
        **{f"in_{i}": axis.pitches[0] for i, axis in enumerate(walk.axes)},
        **{f"out_{i}": axis.pitches[1] for i, axis in enumerate(walk.axes)},
        itemsize=itemsize,
        **{f"count_{i}": walk.axes[i].size for i in range(1, AXES - 1)},
        width=walk.axes[-1].size,
        piece=PIECE,
        row_pieces=walk.row_pieces,
        pieces=walk.pieces,
        ticket_pieces=tickets.each,
    )
    return Tile("move_elements", desc, tickets.count, scratch=64)
