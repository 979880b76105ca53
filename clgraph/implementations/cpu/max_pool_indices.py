"""Maxima of windows and their places, of plain tensors on CPU devices."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.pooled_rows import PooledRows, count_rows, pooled_rows, rows_refusal
from clgraph.ops.max_pool_indices import MaxPoolIndices
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

COMPARED = frozenset({DType.F32, DType.F64, DType.I8, DType.U8})
"""Types of the elements."""

_RUN = 6
"""Vectors that take as long as what is done once a row of windows' elements."""


@descriptor("max_pool_indices_rows", library="rare", any_alignment=True)
class MaxPoolIndicesRowsDesc(PooledRows, Descriptor):
    """Fields as in ``max_pool_indices_rows.cl``."""

    inp: Pointer
    out: Pointer
    places: Pointer
    by_column: Int


@implements(
    MaxPoolIndices,
    name="max_pool_indices.rows",
    serves=Serves(dtypes=COMPARED | {DType.I64}, mixed=True, kinds=frozenset({"cpu"})),
)
class MaxPoolIndicesRows(Implementation[MaxPoolIndices]):
    """A row at a time, of one or two spatial axes: element after element of all its windows."""

    @classmethod
    def limits(cls, q: Query[MaxPoolIndices]) -> str | None:
        x = q.inputs[0]
        if x.dtype not in COMPARED:
            return f"compares floats, doubles and bytes, not {x.dtype}"
        return rows_refusal(q)

    @classmethod
    def cost(cls, q: Query[MaxPoolIndices]) -> float:
        moved = q.inputs[0].nbytes + sum(y.nbytes for y in q.outputs)
        return step_seconds(q.device, count_rows(q.outputs[0]) * _row_seconds(q), moved, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[MaxPoolIndices]) -> Plan:
        y, tickets = q.outputs[0], _tickets(q)
        desc = MaxPoolIndicesRowsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            places=Ref("out1"),
            by_column=int(q.primitive.by_column),
            **pooled_rows(q.primitive.pooling, q.inputs[0], y, tickets.each),
        )
        return Plan((Tile("max_pool_indices_rows", desc, tickets.count, scratch=4 * -(-y.shape[-1] // LANES) * LANES),))


def _row_seconds(q: Query[MaxPoolIndices]) -> float:
    taps = prod(q.primitive.pooling.kernel)
    vectors = -(-q.outputs[0].shape[-1] // LANES)
    return (taps + 1) * (3 * vectors + _RUN) * q.device.costs.unit("copy.vector")


def _tickets(q: Query[MaxPoolIndices]) -> TicketRanges:
    return runs(count_rows(q.outputs[0]), _row_seconds(q), q.device)
