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
from clgraph.implementations.cpu.nest import DEPTH, Nest, NestFields
from clgraph.implementations.cpu.rows import Axis, merge
from clgraph.selector.descriptor import NULL, Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import DeviceInfo, Query

ANY_ELEMENTS = Serves(dtypes=frozenset(DType), mixed=True, kinds=frozenset({"cpu"}))

PIECE = 4096
"""Elements of a row that one piece moves."""

MOST_PARTS = 16
"""Steps that one move may take."""

ROW = 0.5
"""What going to the next row takes, in rows of ``copy_rows``, which divides for each: 9 of 20 ns (Zen 4)."""


NARROW = 8
"""Elements of rows that are moved together with those beside them: up to here that takes less than a loop for each."""


@descriptor("move_elements", library="moves", any_alignment=True)
class MoveElementsDesc(NestFields, Descriptor):
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
    narrow: Int


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
        if (most := max((len(merge(m.axes)) for m in found), default=0)) > DEPTH:
            return f"walks {DEPTH} axes, not {most}"
        return None

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        return sum(move_seconds(m, q.outputs[0].dtype.itemsize, q.device) for m in cls.moves(q))

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        return Plan(tuple(move_tile(m, q.outputs[0].dtype.itemsize, q.device) for m in cls.moves(q)))


def _nest(move: Move) -> Nest:
    return Nest.of(move.axes, PIECE)


def _narrow(nest: Nest) -> bool:
    return nest.width.size <= NARROW < nest.axes[-2].size


def _piece_seconds(nest: Nest, itemsize: int, device: DeviceInfo) -> float:
    if _narrow(nest):
        each = 2 * itemsize * device.costs.unit("move.byte") + device.costs.unit("move.element")
        return nest.width.size * each
    spread = sum(pitch not in (0, 1) for pitch in nest.width.pitches)
    one = 2 * itemsize * device.costs.unit("move.byte") + spread * device.costs.unit("move.element")
    return ROW * device.costs.unit("move.row") + min(nest.width.size, PIECE) * one


def move_seconds(move: Move, itemsize: int, device: DeviceInfo) -> float:
    """Estimate the step of *move*, of elements of *itemsize* bytes."""
    nest = _nest(move)
    moved = 2.0 * itemsize * prod(a.size for a in nest.axes)
    return step_seconds(device, nest.pieces * _piece_seconds(nest, itemsize, device), moved, 8 * device.workers)


def move_tile(move: Move, itemsize: int, device: DeviceInfo) -> Tile:
    """Return the tile of *move*, of elements of *itemsize* bytes."""
    nest = _nest(move)
    tickets = runs(nest.pieces, _piece_seconds(nest, itemsize, device), device)
    desc = MoveElementsDesc(
        inp=move.inp or NULL,
        out=move.out,
        value=move.value,
        **nest.pitches("in", 0),
        **nest.pitches("out", 1),
        itemsize=itemsize,
        narrow=int(_narrow(nest)),
        **nest.sizes(tickets),
    )
    return Tile("move_elements", desc, tickets.count, scratch=64)
