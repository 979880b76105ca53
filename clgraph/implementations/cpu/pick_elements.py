"""Elements of any type at places that are data: what all gathers on CPU devices share."""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.implementations.cpu.rows import Axis, merge
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

AXES = 6
PIECE = 2048
"""Elements of a row that one piece moves: their places stay in the first-level cache."""

ROW = 2.0
"""What finding a row and its place takes, in rows of ``copy_rows``."""

PLACE = 2.0
"""What finding an element's place and moving it take, in elements of ``copy_rows`` that are not neighbours."""


@descriptor("pick_elements", any_alignment=True)
class PickElementsDesc(Descriptor):
    """Fields as in ``pick_elements.cl``."""

    inp: Pointer
    index: Pointer
    out: Pointer
    in_0: Long
    in_1: Long
    in_2: Long
    in_3: Long
    in_4: Long
    in_5: Long
    index_0: Long
    index_1: Long
    index_2: Long
    index_3: Long
    index_4: Long
    index_5: Long
    size_0: Long
    size_1: Long
    size_2: Long
    size_3: Long
    size_4: Long
    size_5: Long
    place_0: Long
    place_1: Long
    place_2: Long
    place_3: Long
    place_4: Long
    place_5: Long
    coordinate: Long
    depth: Int
    wide: Int
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
class Picks:
    """What a gather picks.

    Attributes:
        axes: Of the result, in order, with the pitches of x and of the first coordinate.
        places: Of each coordinate, the size of its axis of x and the elements from one index to the next.
        coordinate: Indices from one coordinate to the next.
    """

    axes: tuple[Axis, ...]
    places: tuple[tuple[int, int], ...]
    coordinate: int = 0


class PickedElements(Implementation[Any]):
    """Places found for a run of elements, then the elements, or a run of neighbours at one place."""

    @classmethod
    @abstractmethod
    def picks(cls, q: Query[Any]) -> Picks:
        """Return what is picked; its axes may be any number."""

    @classmethod
    def limits(cls, q: Query[Any]) -> str | None:
        if not all(x.is_dense_plain for x in (*q.inputs, *q.outputs)):
            return "picks from dense plain tensors"
        if refused := count_refusal(q):
            return refused
        picks = cls.picks(q)
        if (most := max(len(merge(picks.axes)), len(picks.places))) > AXES:
            return f"walks {AXES} axes, not {most}"
        return None

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        axes = _axes(cls.picks(q))
        moved = 2.0 * q.outputs[0].nbytes + q.inputs[1].nbytes
        return step_seconds(q.device, _pieces(axes) * _piece_seconds(q, axes), moved, _tickets(q, axes).count)

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        picks = cls.picks(q)
        axes = _axes(picks)
        tickets = _tickets(q, axes)
        coordinates = (*picks.places, *[(1, 0)] * (AXES - len(picks.places)))
        desc = PickElementsDesc(
            inp=Ref("in0"),
            index=Ref("in1"),
            out=Ref("out0"),
            **{f"in_{i}": axis.pitches[0] for i, axis in enumerate(axes)},
            **{f"index_{i}": axis.pitches[1] for i, axis in enumerate(axes)},
            **{f"size_{i}": size for i, (size, _) in enumerate(coordinates)},
            **{f"place_{i}": pitch for i, (_, pitch) in enumerate(coordinates)},
            coordinate=picks.coordinate,
            depth=len(picks.places),
            wide=int(q.inputs[1].dtype == DType.I64),
            itemsize=q.outputs[0].dtype.itemsize,
            **{f"count_{i}": axes[i].size for i in range(1, AXES - 1)},
            width=axes[-1].size,
            piece=PIECE,
            row_pieces=-(-axes[-1].size // PIECE),
            pieces=_pieces(axes),
            ticket_pieces=tickets.each,
        )
        return Plan((Tile("pick_elements", desc, tickets.count, scratch=4 * PIECE),))


def _axes(picks: Picks) -> tuple[Axis, ...]:
    found = merge(picks.axes)
    return (*[Axis(1, (0, 0))] * (AXES - len(found)), *found)


def _pieces(axes: tuple[Axis, ...]) -> int:
    return prod(a.size for a in axes[:-1]) * -(-axes[-1].size // PIECE)


def _piece_seconds(q: Query[Any], axes: tuple[Axis, ...]) -> float:
    unit, count = q.device.costs.unit, min(axes[-1].size, PIECE)
    each = 2 * q.outputs[0].dtype.itemsize * unit("move.byte")
    if axes[-1].pitches[1]:
        each += PLACE * unit("move.element")
    return ROW * unit("move.row") + count * each


def _tickets(q: Query[Any], axes: tuple[Axis, ...]) -> TicketRanges:
    return runs(_pieces(axes), _piece_seconds(q, axes), q.device)
