"""Elements of any type at places that are data: what all gathers on CPU devices share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.coordinates import MOST, CoordinateFields, Coordinates
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.implementations.cpu.nest import DEPTH, Nest, NestFields
from clgraph.implementations.cpu.rows import Axis, merge
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

PIECE = 2048
"""Elements of a row that one piece moves: their places stay in the first-level cache."""

WHOLE_PIECE = 1 << 16
"""The same of neighbours at one place, of which every piece begins anew."""

ROW = 2.0
"""What finding a row and its place takes, in rows of ``copy_rows``."""

ROW_OF_MANY = 0.1
"""The same, of rows that have one place each, whose places are found together."""

PLACE = 2.0
"""What finding an element's place and moving it take, in elements of ``copy_rows`` that are not neighbours."""


@descriptor("pick_elements", library="moves", any_alignment=True)
class PickElementsDesc(NestFields, CoordinateFields, Descriptor):
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
    itemsize: Int


@frozen
class Picks:
    """What a gather picks.

    Attributes:
        axes: Of the result, in order, with the pitches of x and of the first coordinate.
        place: In x.
    """

    axes: tuple[Axis, ...]
    place: Coordinates


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
        if (axes := len(merge(picks.axes))) > DEPTH:
            return f"walks {DEPTH} axes, not {axes}"
        if (coordinates := len(picks.place.axes)) > MOST:
            return f"reads {MOST} coordinates, not {coordinates}"
        return None

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        nest = _nest(cls.picks(q))
        moved = 2.0 * q.outputs[0].nbytes + q.inputs[1].nbytes
        return step_seconds(q.device, nest.pieces * _piece_seconds(q, nest), moved, _tickets(q, nest).count)

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        picks = cls.picks(q)
        nest = _nest(picks)
        tickets = _tickets(q, nest)
        desc = PickElementsDesc(
            inp=Ref("in0"),
            index=Ref("in1"),
            out=Ref("out0"),
            **nest.pitches("in", 0),
            **nest.pitches("index", 1),
            **picks.place.values(q.inputs[1]),
            itemsize=q.outputs[0].dtype.itemsize,
            **nest.sizes(tickets),
        )
        return Plan((Tile("pick_elements", desc, tickets.count, scratch=4 * PIECE),))


def _nest(picks: Picks) -> Nest:
    found = Nest.of(picks.axes, PIECE)
    return Nest(found.axes, WHOLE_PIECE) if _whole(found) else found


def _whole(nest: Nest) -> bool:
    """Whether rows are neighbours at one place."""
    return nest.width.pitches == (1, 0)


def _piece_seconds(q: Query[Any], nest: Nest) -> float:
    unit, count = q.device.costs.unit, min(nest.width.size, nest.piece)
    each = 2 * q.outputs[0].dtype.itemsize * unit("move.byte")
    if nest.width.pitches[1]:
        each += PLACE * unit("move.element")
    together = _whole(nest) and nest.row_pieces == 1 and nest.axes[-2].size > 1
    return (ROW_OF_MANY if together else ROW) * unit("move.row") + count * each


def _tickets(q: Query[Any], nest: Nest) -> TicketRanges:
    return runs(nest.pieces, _piece_seconds(q, nest), q.device)
