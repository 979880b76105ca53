"""Transposes of plain tensors on CPU devices: rows copied whole, or planes transposed."""

from __future__ import annotations

from dataclasses import replace

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.copies import MOST_COPIES, copies, copy_rows
from clgraph.implementations.cpu.cost import runs, step_seconds
from clgraph.implementations.cpu.geometry import LANES, post_refusal
from clgraph.implementations.cpu.rows import Axis, Rows, merge, row_posts
from clgraph.ops.transpose import Transpose
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


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
    strips: Int
    strips_total: Int
    ticket_strips: Int


@frozen
class Turn:
    """Planes to be turned: axes of planes, the input's rows, which become the output's columns, and its columns.

    Attributes:
        sets: A third axis of planes: a tile an index.
    """

    sets: Axis
    images: Axis
    planes: Axis
    rows: Axis
    columns: Axis


@remembered
def _problem(q: Query[Transpose]) -> Rows | Turn | tuple[Tile, ...] | str:
    """Return the transpose as rows to copy (with a list, or in several steps) or planes to turn, or why it is none."""
    x, y, axes = q.inputs[0], q.outputs[0], q.primitive.axes
    if not x.format.is_plain or not y.is_dense_plain:
        return "serves plain tensors"
    operands = [q.inputs[s] for s in q.post_slots]
    if any(o.shape != y.shape or not o.is_dense_plain for o in operands):
        return "reads operands of the result's shape"
    pitch = [x.all_pitches[a] for a in axes]
    also = [y.all_pitches for _ in operands]
    found = merge([Axis(s, (pitch[i], y.all_pitches[i], *(o[i] for o in also))) for i, s in enumerate(y.shape)])
    one = Axis(1, (0,) * (2 + len(operands)))
    if not found or found[-1].pitches[0] == 1:
        if len(found) > 3 and not q.post:
            return copies(Ref("in0", 4 * x.origin), Ref("out0"), found, q.device)
        width = found.pop() if found else one
        rows = found.pop() if found else one
        images = found.pop() if found else one
        return "walks three axes, and this needs more" if found else Rows(images, rows, width)
    columns = [a for a in found if a.pitches[0] == 1]
    if operands or q.post:
        return "applies operations to rows that are copied, not to planes that are turned"
    if not columns:
        return "requires elements of the input side by side"
    rest = [a for a in found[:-1] if a is not columns[0]]
    sets = min(rest, key=lambda a: a.size) if len(rest) > 2 else one
    if len(rest) > 3 or sets.size > MOST_COPIES:
        return f"walks two axes of planes, at most {MOST_COPIES} times, and this needs more"
    rest = [one, one, *(a for a in rest if a is not sets)][-2:]
    return Turn(sets, rest[0], rest[1], found[-1], columns[0])


@implements(Transpose, name="transpose.tiles", serves=replace(TILE, formats=False, halos=False))
class TransposeTiles(Implementation[Transpose]):
    """Copies runs of neighbours where there are any, else turns 16 by 16 elements at a time."""

    @classmethod
    def limits(cls, q: Query[Transpose]) -> str | None:
        problem = _problem(q)
        return problem if isinstance(problem, str) else post_refusal(q)

    @classmethod
    def cost(cls, q: Query[Transpose]) -> float:
        moved = 2 * q.inputs[0].nbytes
        return step_seconds(q.device, moved * q.device.costs.unit("move.byte"), moved, 8 * q.device.workers)

    @classmethod
    def plan(cls, q: Query[Transpose]) -> Plan:
        problem = _problem(q)
        if isinstance(problem, Rows):
            return Plan((copy_rows(q, 0, problem, row_posts(q, problem)),))
        if isinstance(problem, str):
            raise TypeError(problem)
        if isinstance(problem, tuple):
            return Plan(problem)
        return Plan(tuple(_turned(q, problem, index) for index in range(problem.sets.size)))


def _turned(q: Query[Transpose], turn: Turn, index: int) -> Tile:
    """Return the tile that turns the planes of one of the sets."""
    strips = -(-turn.columns.size // LANES)
    total = strips * turn.images.size * turn.planes.size
    size = q.inputs[0].dtype.itemsize
    one = LANES * turn.rows.size * 8 * q.device.costs.unit("move.byte")
    tickets = runs(total, one, q.device)
    desc = TransposePlanesDesc(
        inp=Ref("in0", size * (q.inputs[0].origin + index * turn.sets.pitches[0])),
        out=Ref("out0", size * index * turn.sets.pitches[1]),
        in_n=turn.images.pitches[0],
        in_y=turn.planes.pitches[0],
        in_i=turn.rows.pitches[0],
        out_n=turn.images.pitches[1],
        out_y=turn.planes.pitches[1],
        out_j=turn.columns.pitches[1],
        itemsize=size,
        planes_y=turn.planes.size,
        rows=turn.rows.size,
        columns=turn.columns.size,
        strips=strips,
        strips_total=total,
        ticket_strips=tickets.each,
    )
    return Tile("transpose_planes", desc, tickets.count)


@implements(
    Transpose,
    name="transpose.narrow",
    serves=Serves(dtypes=frozenset(d for d in DType if d.itemsize in (1, 2)), kinds=frozenset({"cpu"})),
)
class TransposeNarrow(Implementation[Transpose]):
    """Turns 16 by 16 elements of one or two bytes at a time."""

    @classmethod
    def limits(cls, q: Query[Transpose]) -> str | None:
        problem = _problem(q)
        if isinstance(problem, str):
            return problem
        return None if isinstance(problem, Turn) else "turns planes, and these are rows that are copied"

    @classmethod
    def cost(cls, q: Query[Transpose]) -> float:
        x = q.inputs[0]
        # What is done with 16 by 16 elements takes as long for one byte as for four.
        work = 8 * x.count * q.device.costs.unit("move.byte")
        return step_seconds(q.device, work, 2 * x.nbytes, 8 * q.device.workers)

    @classmethod
    def plan(cls, q: Query[Transpose]) -> Plan:
        problem = _problem(q)
        assert isinstance(problem, Turn)
        return Plan(tuple(_turned(q, problem, index) for index in range(problem.sets.size)))
