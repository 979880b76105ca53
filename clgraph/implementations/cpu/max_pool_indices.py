"""Maxima of windows and their places, of plain tensors on CPU devices."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.blocked import square
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.elements import TYPES
from clgraph.implementations.cpu.geometry import LANES, SlidingWindow, count_refusal, window
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
class MaxPoolIndicesRowsDesc(SlidingWindow, Descriptor):
    """Fields as in ``max_pool_indices_rows.cl``."""

    inp: Pointer
    out: Pointer
    places: Pointer
    type: Int
    itemsize: Int
    rows: Int
    in_height: Int
    in_width: Int
    height: Int
    width: Int
    pad_top: Int
    pad_left: Int
    by_column: Int
    ticket_rows: Int


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
        if x.dtype == DType.F64 and "fp64" not in q.device.features:
            return "needs fp64 for doubles"
        if x.rank not in (3, 4) or not x.count:
            return f"serves one or two axes of some elements, not {x}"
        if not all(t.is_dense_plain for t in (*q.inputs, *q.outputs)):
            return "serves dense plain tensors"
        return count_refusal(q)

    @classmethod
    def cost(cls, q: Query[MaxPoolIndices]) -> float:
        moved = q.inputs[0].nbytes + sum(y.nbytes for y in q.outputs)
        return step_seconds(q.device, _rows(q) * _row_seconds(q), moved, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[MaxPoolIndices]) -> Plan:
        x, y, p, tickets = q.inputs[0], q.outputs[0], q.primitive.pooling, _tickets(q)
        pads = p.pads if len(p.pads) == 2 else ((0, 0), *p.pads)
        desc = MaxPoolIndicesRowsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            places=Ref("out1"),
            type=TYPES[x.dtype],
            itemsize=x.dtype.itemsize,
            rows=_rows(q),
            in_height=x.shape[2] if x.rank == 4 else 1,
            in_width=x.shape[-1],
            height=y.shape[2] if y.rank == 4 else 1,
            width=y.shape[-1],
            **window(square(p.kernel), square(p.strides), square(p.dilations)),
            pad_top=pads[0][0],
            pad_left=pads[1][0],
            by_column=int(q.primitive.by_column),
            ticket_rows=tickets.each,
        )
        return Plan((Tile("max_pool_indices_rows", desc, tickets.count, scratch=4 * y.shape[-1]),))


def _rows(q: Query[MaxPoolIndices]) -> int:
    return prod(q.outputs[0].shape[:-1])


def _row_seconds(q: Query[MaxPoolIndices]) -> float:
    taps = prod(q.primitive.pooling.kernel)
    vectors = -(-q.outputs[0].shape[-1] // LANES)
    return (taps + 1) * (3 * vectors + _RUN) * q.device.costs.unit("copy.vector")


def _tickets(q: Query[MaxPoolIndices]) -> TicketRanges:
    return runs(_rows(q), _row_seconds(q), q.device)
