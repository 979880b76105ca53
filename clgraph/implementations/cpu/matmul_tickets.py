"""Tickets of products of plain matrices on CPU devices, and the time that a row takes."""

from __future__ import annotations

from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.cost import TicketRanges, split, ticket_seconds, worker_flops
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.matmul_instances import (
    GROUP,
    NARROW_ROWS,
    SLIM_ROWS,
    register_block,
    widest_instance,
)
from clgraph.implementations.cpu.strided_product import StridedProduct, is_dots
from clgraph.ops.matmul import MatMul
from clgraph.selector.query import Query

_LANES_SUMMED = 256
"""Operations of full vectors in whose time the lanes of one are added up."""

PART_ROWS = 24
"""Fewest rows of a part. Measured on two cores with second-level caches of their own: products of 48 rows and more take
0.8-1.0 of the time that runs of columns a worker take, of 512 rows 0.7-1.0, of 12 rows 1.1-1.2."""


@frozen
class MatMulTickets:
    """Runs of the rows of each part, and of column groups; parts of the rows."""

    rows: TicketRanges
    groups: TicketRanges
    parts: TicketRanges


def row_seconds(q: Query[MatMul], p: StridedProduct) -> float:
    """Return one worker's time for one row of one group of columns."""
    if is_dots(q, p):
        return p.columns * (4 * p.depth + _LANES_SUMMED) / worker_flops(q.device)
    nb, most = register_block(q.device)
    count = min(most, p.rows.size)
    return p.depth * half_cycles(nb, count) / count * (GROUP // LANES // nb) * 2 * LANES / worker_flops(q.device)


def groups_computed(q: Query[MatMul], p: StridedProduct) -> float:
    """Return how many groups of columns are computed: of the last one what an instance of fewer columns computes."""
    whole, rest = divmod(p.columns, GROUP)
    if widest_instance(q.device).narrow_id < 0:
        return whole + (rest > 0)
    if rest <= LANES and p.rows.size >= SLIM_ROWS:
        return whole + 0.25 * (rest > 0)
    return whole + (0.5 if rest <= GROUP // 2 and p.rows.size >= NARROW_ROWS else 1.0) * (rest > 0)


def row_parts(q: Query[MatMul], p: StridedProduct) -> TicketRanges:
    """Cut the rows into parts, one a worker where they are many; tickets of a part are computed by the same worker.

    In a chain of products a worker finds in its own cache what it wrote. Lines that another core wrote take 30-40 ns
    each; against them stands the right side, which every worker reads.
    """
    parts = min(q.device.workers, p.rows.size // PART_ROWS)
    if parts < 2 or p.matrices % q.device.workers == 0:
        parts = 1
    return TicketRanges(parts, -(-p.rows.size // parts))


def matmul_tickets(q: Query[MatMul], p: StridedProduct, parts: TicketRanges) -> MatMulTickets:
    """Return how each of *parts* of the rows is cut into tickets."""
    groups, row = -(-p.columns // GROUP), row_seconds(q, p)
    wanted = ticket_seconds(row * p.rows.size * groups * p.matrices, q.device)
    most, sharing = widest_instance(q.device).rows, -(-q.device.workers // parts.count)
    if groups >= 4 * sharing or row * parts.each <= wanted:
        return MatMulTickets(TicketRanges(1, parts.each), split(groups, row * parts.each, wanted, sharing), parts)
    runs = split(-(-parts.each // most), row * most, wanted, sharing)
    rows = runs.each * most
    return MatMulTickets(TicketRanges(-(-parts.each // rows), rows), TicketRanges(groups, 1), parts)
