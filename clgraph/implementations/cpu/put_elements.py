"""Elements of any type put at places that are data: what all scatters on CPU devices share."""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.coordinates import MOST, CoordinateFields, Coordinates
from clgraph.implementations.cpu.cost import runs, step_seconds
from clgraph.implementations.cpu.element_types import TYPES
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.implementations.cpu.move_elements import Move, move_seconds, move_tile
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.scatter import CODES
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import DeviceInfo, Query

LINES = 4
"""Axes of lines."""

PIECE = 2048
"""Elements of a line's width, or steps where that is one, whose places are found together."""

JOINED = frozenset({DType.F32, DType.F64, DType.I64, DType.I32, DType.I16, DType.I8, DType.U16, DType.U8})
"""Types of sums, products and extrema."""

STEP = 1.5
"""What a step of a line takes, in rows of ``copy_rows``."""

PLACE = 3.0
"""What finding an element's place and changing it take, in elements of ``copy_rows`` that are not neighbours."""


@descriptor("put_elements", library="rare", any_alignment=True)
class PutElementsDesc(CoordinateFields, Descriptor):
    """Fields as in ``put_elements.cl``."""

    index: Pointer
    updates: Pointer
    out: Pointer
    index_0: Long
    index_1: Long
    index_2: Long
    index_3: Long
    index_step: Long
    index_x: Long
    from_0: Long
    from_1: Long
    from_2: Long
    from_3: Long
    from_step: Long
    from_x: Long
    to_0: Long
    to_1: Long
    to_2: Long
    to_3: Long
    to_x: Long
    itemsize: Int
    type: Int
    operation: Int
    count_1: Int
    count_2: Int
    count_3: Int
    steps: Int
    width: Int
    piece: Int
    row_pieces: Int
    pieces: Int
    ticket_pieces: Int


@frozen
class Puts:
    """What a scatter puts where; pitches of the first coordinate, of the updates, of the result.

    Attributes:
        lines: Axes along which different elements are touched.
        steps: Along it updates come in their order; the result stands still.
        width: The innermost axis of the lines, if its elements are neighbours in the result, else of size 1.
        place: In x.
    """

    lines: tuple[Axis, ...]
    steps: Axis
    width: Axis
    place: Coordinates

    @property
    def pieces(self) -> int:
        """Runs of the widths of all lines."""
        return prod(a.size for a in self.lines) * -(-self.width.size // PIECE)


class PutElements(Implementation[Any]):
    """A copy of x, then a line's updates one after another."""

    @classmethod
    @abstractmethod
    def puts(cls, q: Query[Any]) -> Puts:
        """Return what is put where; lines may have any number of axes."""

    @classmethod
    def limits(cls, q: Query[Any]) -> str | None:
        x, name = q.inputs[0].dtype, q.primitive.reduction
        if not all(t.is_dense_plain for t in (*q.inputs, *q.outputs)):
            return "puts into dense plain tensors"
        if name != "none" and x not in JOINED:
            return f"computes no {name} of {x}"
        if name != "none" and x == DType.F64 and "fp64" not in q.device.features:
            return "needs fp64 for doubles"
        if refused := count_refusal(q):
            return refused
        puts = cls.puts(q)
        if len(puts.lines) > LINES:
            return f"walks {LINES} axes of lines, not {len(puts.lines)}"
        if (coordinates := len(puts.place.axes)) > MOST:
            return f"reads {MOST} coordinates, not {coordinates}"
        return None

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        puts, x, indices = cls.puts(q), q.inputs[0].dtype, q.inputs[1]
        return move_seconds(_copy(q), x.itemsize, q.device) + put_seconds(puts, x, indices, q.device)

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        x, places = q.inputs[0].dtype, (Ref("in1"), q.inputs[1])
        put = put_tile(cls.puts(q), places, Ref("in2"), x, q.device, CODES[q.primitive.reduction])
        return Plan((move_tile(_copy(q), x.itemsize, q.device), put))


def _copy(q: Query[Any]) -> Move:
    return Move(Ref("in0"), Ref("out0"), (Axis(q.inputs[0].count, (1, 1)),))


def put_seconds(puts: Puts, dtype: DType, indices: Layout, device: DeviceInfo) -> float:
    """Estimate the step of *puts*, of elements of *dtype*."""
    each, count = _piece_seconds(puts, dtype.itemsize, device), prod(a.size for a in puts.lines)
    moved = 2.0 * dtype.itemsize * count * puts.steps.size * puts.width.size + indices.nbytes
    return step_seconds(device, puts.pieces * each, moved, runs(puts.pieces, each, device).count)


def put_tile(
    puts: Puts, places: tuple[Ref, Layout], updates: Ref, dtype: DType, device: DeviceInfo, operation: int = 0
) -> Tile:
    """Return the tile of *puts*, of elements of *dtype*.

    Args:
        places: The indices.
        operation: How an update joins what is there, one of ``CODES``.
    """
    tickets = runs(puts.pieces, _piece_seconds(puts, dtype.itemsize, device), device)
    lines = (*[Axis(1, (0, 0, 0))] * (LINES - len(puts.lines)), *puts.lines)
    named = [*((str(i), axis) for i, axis in enumerate(lines)), ("step", puts.steps), ("x", puts.width)]
    desc = PutElementsDesc(
        index=places[0],
        updates=updates,
        out=Ref("out0"),
        **{f"index_{name}": axis.pitches[0] for name, axis in named},
        **{f"from_{name}": axis.pitches[1] for name, axis in named},
        **{f"to_{name}": axis.pitches[2] for name, axis in named if name != "step"},
        **puts.place.values(places[1]),
        itemsize=dtype.itemsize,
        type=TYPES[dtype] if dtype in JOINED else 0,
        operation=operation,
        **{f"count_{i}": lines[i].size for i in range(1, LINES)},
        steps=puts.steps.size,
        width=puts.width.size,
        piece=PIECE,
        row_pieces=-(-puts.width.size // PIECE),
        pieces=puts.pieces,
        ticket_pieces=tickets.each,
    )
    return Tile("put_elements", desc, tickets.count, scratch=4 * PIECE)


def _piece_seconds(puts: Puts, itemsize: int, device: DeviceInfo) -> float:
    unit, count = device.costs.unit, min(puts.width.size, PIECE)
    each = 2 * itemsize * unit("move.byte")
    if puts.width.size == 1:
        return STEP * unit("move.row") + puts.steps.size * (each + PLACE * unit("move.element"))
    each += PLACE * unit("move.element") if puts.width.pitches[0] else 0.0
    return puts.steps.size * (STEP * unit("move.row") + count * each)
