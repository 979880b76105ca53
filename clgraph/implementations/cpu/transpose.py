"""Transposes of plain tensors on CPU devices whose rows are copied whole."""

from __future__ import annotations

from dataclasses import replace

from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.copies import copies, copy_rows, rows_step_seconds
from clgraph.implementations.cpu.fused_operations import post_refusal
from clgraph.implementations.cpu.rows import Axis, Rows, merge, row_posts
from clgraph.ops.transpose import Transpose
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@remembered
def _problem(q: Query[Transpose]) -> Rows | tuple[Tile, ...] | str:
    """Return the transpose as rows to copy, with a list or in several steps, or why it is none."""
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
    if found and found[-1].pitches[0] != 1:
        return "copies rows of neighbours, and the result has none"
    if len(found) > 3 and not q.post:
        return copies(Ref("in0", 4 * x.origin), Ref("out0"), found, q.device)
    width = found.pop() if found else one
    rows = found.pop() if found else one
    images = found.pop() if found else one
    return "walks three axes, and this needs more" if found else Rows(images, rows, width)


@implements(Transpose, name="transpose.tiles", serves=replace(TILE, formats=False, halos=False))
class TransposeTiles(Implementation[Transpose]):
    """Copies runs of neighbours, and applies a list to them."""

    @classmethod
    def limits(cls, q: Query[Transpose]) -> str | None:
        problem = _problem(q)
        return problem if isinstance(problem, str) else post_refusal(q)

    @classmethod
    def cost(cls, q: Query[Transpose]) -> float:
        return sum(rows_step_seconds(tile, q.device) for tile in cls.plan(q).steps if isinstance(tile, Tile))

    @classmethod
    def plan(cls, q: Query[Transpose]) -> Plan:
        problem = _problem(q)
        if isinstance(problem, Rows):
            return Plan((copy_rows(q, 0, problem, row_posts(q, problem)),))
        if isinstance(problem, str):
            raise TypeError(problem)
        return Plan(problem)
