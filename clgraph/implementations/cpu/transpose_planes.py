"""Transposes that exchange rows and columns of planes on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.copies import MOST_COPIES
from clgraph.implementations.cpu.cost import runs, step_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.rows import Axis, merge
from clgraph.ops.transpose import Transpose
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_WORDS = (1, 2, 4, 8)
"""Bytes that are moved as one."""

_STRETCH = 2048
"""Columns of a strip, or rows of a plane, where the others are few."""


@descriptor("transpose_planes", any_alignment=True)
class TransposePlanesDesc(Descriptor):
    """Fields as in ``transpose_planes.cl``."""

    inp: Pointer
    out: Pointer
    in_n: Long
    in_y: Long
    in_i: Long
    out_n: Long
    out_y: Long
    out_j: Long
    itemsize: Int
    planes_y: Int
    rows: Int
    columns: Int
    strip: Int
    strips: Int
    strips_total: Int
    ticket_strips: Int


@frozen
class Turn:
    """Planes to be turned: axes of planes, the input's rows, which become the output's columns, and its columns.

    Pitches are in words.

    Attributes:
        word: Bytes that are moved as one: an element, or neighbours that stay neighbours, as complex numbers do.
        sets: A third axis of planes: a tile an index.
    """

    word: int
    sets: Axis
    images: Axis
    planes: Axis
    rows: Axis
    columns: Axis


@remembered
def _turn(q: Query[Transpose]) -> Turn | str:
    """Return the planes, or why there are none."""
    x, y = q.inputs[0], q.outputs[0]
    if not x.format.is_plain or not y.is_dense_plain:
        return "serves plain tensors"
    pitches = [x.all_pitches[a] for a in q.primitive.axes]
    found = merge([Axis(s, (a, b)) for s, a, b in zip(y.shape, pitches, y.all_pitches, strict=True)])
    word = x.dtype.itemsize
    if found and found[-1].pitches == (1, 1):
        kept = found.pop().size
        word *= kept
        if word not in _WORDS:
            return f"moves {', '.join(map(str, _WORDS))} bytes as one, not the {word} that stay neighbours"
        if x.origin % kept or any(p % kept for a in found for p in a.pitches):
            return f"requires elements at multiples of the {kept} that stay neighbours"
        found = [Axis(a.size, (a.pitches[0] // kept, a.pitches[1] // kept)) for a in found]
    columns = [a for a in found if a.pitches[0] == 1]
    if not columns or columns[0] is found[-1]:
        return "requires elements of the input side by side that the result holds apart"
    one = Axis(1, (0, 0))
    rest = [a for a in found[:-1] if a is not columns[0]]
    sets = min(rest, key=lambda a: a.size) if len(rest) > 2 else one
    if len(rest) > 3 or sets.size > MOST_COPIES:
        return f"walks two axes of planes, at most {MOST_COPIES} times, and this needs more"
    rest = [one, one, *(a for a in rest if a is not sets)][-2:]
    rows = found[-1]
    if columns[0].size < LANES and rest[0].size == 1:
        rest[0], rows = _cut(rows)
    return Turn(word, sets, rest[0], rest[1], rows, columns[0])


def _cut(axis: Axis) -> tuple[Axis, Axis]:
    """Return *axis* as two; the second is its largest divisor in ``LANES`` to ``_STRETCH``, or all without one."""
    size = axis.size
    each = next((n for n in range(min(size, _STRETCH), LANES - 1, -1) if size % n == 0), size)
    return Axis(size // each, (each * axis.pitches[0], each * axis.pitches[1])), Axis(each, axis.pitches)


@implements(
    Transpose,
    name="transpose.planes",
    serves=Serves(dtypes=frozenset(d for d in DType if d.itemsize in _WORDS), kinds=frozenset({"cpu"})),
)
class TransposePlanes(Implementation[Transpose]):
    """Turns 16 by 16 words of one, two or four bytes at a time, 8 by 8 of eight; few rows or columns, four or all."""

    @classmethod
    def limits(cls, q: Query[Transpose]) -> str | None:
        turn = _turn(q)
        return turn if isinstance(turn, str) else None

    @classmethod
    def cost(cls, q: Query[Transpose]) -> float:
        turn = _turn(q)
        assert isinstance(turn, Turn)
        moved = 2 * q.inputs[0].nbytes
        return step_seconds(q.device, moved * q.device.costs.unit("move.byte"), moved, 8 * q.device.workers)

    @classmethod
    def plan(cls, q: Query[Transpose]) -> Plan:
        turn = _turn(q)
        assert isinstance(turn, Turn)
        return Plan(tuple(_turned(q, turn, index) for index in range(turn.sets.size)))


def _turned(q: Query[Transpose], turn: Turn, index: int) -> Tile:
    """Return the tile that turns the planes of one of the sets."""
    strip = _STRETCH if turn.rows.size < LANES else max(LANES, 32 // turn.word)
    strips = max(1, turn.columns.size // strip)
    total = strips * turn.images.size * turn.planes.size
    one = min(strip, turn.columns.size) * turn.rows.size * 2 * turn.word * q.device.costs.unit("move.byte")
    tickets = runs(total, one, q.device)
    origin = q.inputs[0].dtype.itemsize * q.inputs[0].origin
    desc = TransposePlanesDesc(
        inp=Ref("in0", origin + turn.word * index * turn.sets.pitches[0]),
        out=Ref("out0", turn.word * index * turn.sets.pitches[1]),
        in_n=turn.images.pitches[0],
        in_y=turn.planes.pitches[0],
        in_i=turn.rows.pitches[0],
        out_n=turn.images.pitches[1],
        out_y=turn.planes.pitches[1],
        out_j=turn.columns.pitches[1],
        itemsize=turn.word,
        planes_y=turn.planes.size,
        rows=turn.rows.size,
        columns=turn.columns.size,
        strip=strip,
        strips=strips,
        strips_total=total,
        ticket_strips=tickets.each,
    )
    return Tile("transpose_planes", desc, tickets.count)
