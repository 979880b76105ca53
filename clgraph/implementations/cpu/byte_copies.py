"""Bytes in blocks that are handed on as they are on CPU devices: picked, compared, joined.

Apart from what makes bytes, so that models of floats import nothing of that with the operators that both have.
"""

from __future__ import annotations

from math import prod
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.format import feature_blocked
from clgraph.implementations.cpu.cost import TicketRanges, row_strips, step_seconds, ticket_seconds
from clgraph.implementations.cpu.geometry import LANES, planes
from clgraph.selector.implementation import Formats, Serves
from clgraph.selector.query import Query

HANDS_ON = Serves(
    dtypes=frozenset({DType.U8}),
    kinds=frozenset({"cpu"}),
    formats=True,
    operands=8,
    either=frozenset({"byte_pairs", "short_pairs"}),
)
"""What tiles serve that make no other bytes than those they read."""


def blocked_bytes(q: Query[Any]) -> tuple[Formats, ...]:
    """Return the proposal of all inputs and the result in blocks."""
    rank = q.outputs[0].rank
    return (Formats((feature_blocked(rank),) * q.arity, (feature_blocked(rank),)),) if rank in (3, 4) else ()


def copied_seconds(q: Query[Any], reads: int = 1) -> float:
    """Estimate the time of a step that makes each vector of bytes of *reads* others."""
    work = prod(q.outputs[0].shape) / LANES * q.device.costs.unit("copy.vector") * reads
    return step_seconds(q.device, work, sum(x.nbytes for x in (*q.inputs, *q.outputs)), 8 * q.device.workers)


def strips_of(q: Query[Any], reads: int = 1) -> TicketRanges:
    """Cut the rows of such a step's result."""
    y = planes(q.outputs[0])
    row, blocks = y.width * q.device.costs.unit("copy.vector") * reads, y.batch * y.blocks
    return row_strips(y.height, y.width, row, blocks, ticket_seconds(row * y.height * blocks, q.device), q.device)
