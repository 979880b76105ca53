"""What products with weights of few bits have in common on CPU devices: what they serve, their list and tickets."""

from __future__ import annotations

from dataclasses import replace

from clgraph.core.dtype import DType
from clgraph.core.memo import remembered
from clgraph.errors import UnsupportedError
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.cost import TicketRanges, split, ticket_seconds
from clgraph.implementations.cpu.fused_operations import post_refusal
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.rows import Axis, broadcast_pitches, merge
from clgraph.ops.block_matmul import BlockMatMul, rows_of
from clgraph.ops.block_records import COLUMNS
from clgraph.selector.descriptor import PostStep, Ref
from clgraph.selector.post import post_codes, post_steps
from clgraph.selector.query import Query

WIDTHS = (4, 8, 2)
"""Bits of a weight, in the order of the instances."""

SERVES = replace(TILE, dtypes=frozenset({DType.F32, DType.U8}), mixed=True, formats=False, halos=False)


def tiles_refusal(q: Query[BlockMatMul]) -> str | None:
    """Say why no tile serves *q*, or return ``None``."""
    if any(x.dtype != DType.F32 for i, x in enumerate((*q.inputs, *q.outputs)) if i != 1):
        return "serves float32 beside the weights"
    if not all(x.is_dense_plain for x in (*q.own[:2], q.outputs[0])):
        return "serves dense plain tensors"
    if rows_of(q) * max(q.primitive.columns, 4 * q.primitive.depth) >= 1 << 31 or q.inputs[1].nbytes >= 1 << 33:
        return "counts elements in 32 bits"
    try:
        block_posts(q)
    except UnsupportedError as error:
        return str(error)
    return post_refusal(q)


@remembered
def block_posts(q: Query[BlockMatMul]) -> tuple[PostStep, ...]:
    """Return the list, a bias as its first addition; row and 16-column vector are y and x.

    Raises:
        UnsupportedError: An operand does not move evenly along the rows.
    """
    y = q.outputs[0]
    found = []
    for slot in (*range(2, q.arity), *q.post_slots):
        own = broadcast_pitches(q.inputs[slot], y.rank)
        rows = merge([Axis(size, (a, b)) for size, a, b in zip(y.shape, y.all_pitches, own, strict=True)][:-1])
        if len(rows) > 1:
            raise UnsupportedError("requires operands that move evenly along the rows")
        found.append((0, 0, rows[0].pitches[1] if rows else 0, LANES * own[-1], own[-1]))
    bias = [
        PostStep(post_codes()["add"], operand=Ref("in2", 4 * q.inputs[2].origin), pitches=found.pop(0))
        for _ in range(2, q.arity)
    ]
    pitches = iter(found)
    return (*bias, *post_steps(q, lambda layout: next(pitches)))


def block_tickets(q: Query[BlockMatMul], seconds: float) -> tuple[TicketRanges, TicketRanges]:
    """Return the runs of rows and of column groups, for *seconds* a row of a group."""
    rows, groups = rows_of(q), -(-q.primitive.columns // COLUMNS)
    wanted = ticket_seconds(seconds * rows * groups, q.device)
    if groups >= 4 * q.device.workers or seconds * rows <= wanted:
        return TicketRanges(1, rows), split(groups, seconds * rows, wanted, q.device.workers)
    quads = split(-(-rows // 4), 4 * seconds, wanted, q.device.workers)
    each = min(rows, 4 * quads.each)
    return TicketRanges(-(-rows // each), each), TicketRanges(groups, 1)
