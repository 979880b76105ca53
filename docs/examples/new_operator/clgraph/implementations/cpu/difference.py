"""Differences of plain tensors on CPU devices, along an axis with others behind it."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, split, step_seconds, ticket_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.difference import Difference
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("difference_rows", any_alignment=True)
class DifferenceRowsDesc(Descriptor):
    """Fields as in ``difference_rows.cl``."""

    inp: Pointer
    out: Pointer
    rows: Int
    count: Int
    inner: Int
    ticket_rows: Int


def _sizes(q: Query[Difference]) -> tuple[int, int, int]:
    """Return rows, rows along the axis, and elements of a row: those behind the axis."""
    shape, axis = q.inputs[0].shape, q.primitive.axis
    return prod(shape[: axis + 1]), shape[axis], prod(shape[axis + 1 :])


def _work(q: Query[Difference]) -> tuple[float, TicketRanges]:
    """Return one worker's seconds for all rows, and how they are cut into tickets."""
    rows, _, inner = _sizes(q)
    each = -(-inner // LANES) * q.device.costs.unit("copy.vector")
    return rows * each, split(rows, each, ticket_seconds(rows * each, q.device), q.device.workers)


@implements(
    Difference,
    name="difference.rows",
    serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"})),
)
class DifferenceRows(Implementation[Difference]):
    """Sixteen neighbours at a time."""

    @classmethod
    def limits(cls, q: Query[Difference]) -> str | None:
        if not q.inputs[0].is_dense_plain or not q.outputs[0].is_dense_plain:
            return "serves dense plain tensors"
        return "serves axes with others behind them" if _sizes(q)[2] == 1 else None

    @classmethod
    def cost(cls, q: Query[Difference]) -> float:
        seconds, tickets = _work(q)
        return step_seconds(q.device, seconds, 2 * q.inputs[0].nbytes, tickets.count)

    @classmethod
    def plan(cls, q: Query[Difference]) -> Plan:
        (rows, count, inner), (_, tickets) = _sizes(q), _work(q)
        desc = DifferenceRowsDesc(
            inp=Ref("in0"), out=Ref("out0"), rows=rows, count=count, inner=inner, ticket_rows=tickets.each
        )
        return Plan((Tile("difference_rows", desc, tickets.count),))
