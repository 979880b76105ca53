"""Softmax of doubles on CPU devices, over neighbouring axes."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.elements import RUN, RUN_BYTES
from clgraph.implementations.cpu.geometry import LANES, count_refusal
from clgraph.implementations.cpu.rows import Columns
from clgraph.ops.softmax import Softmax
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

COLUMNS = 128
"""Neighbours that are done side by side: a thousand steps along the axis stay in a core's cache."""

_SLOW = 30.0
"""What 16 elements take, in the time that a vector of 16 floats takes to copy."""


@descriptor("softmax_doubles", any_alignment=True)
class SoftmaxDoublesDesc(Descriptor):
    """Fields as in ``softmax_doubles.cl``."""

    inp: Pointer
    out: Pointer
    count: Int
    inner: Int
    inner_runs: Int
    pieces: Int
    ticket_pieces: Int
    logarithm: Int


@implements(Softmax, name="softmax.doubles", serves=Serves(dtypes=frozenset({DType.F64}), kinds=frozenset({"cpu"})))
class SoftmaxDoubles(Implementation[Softmax]):
    """Lines, or neighbours side by side, each with its own maximum and sum."""

    @classmethod
    def limits(cls, q: Query[Softmax]) -> str | None:
        x, axes = q.inputs[0], sorted(q.primitive.axes)
        if not x.is_dense_plain or not q.outputs[0].is_dense_plain:
            return "serves dense plain tensors"
        if not x.count or axes != list(range(axes[0], axes[-1] + 1)):
            return f"serves neighbouring axes of tensors with elements, not {axes}"
        return count_refusal(q) if "fp64" in q.device.features else "needs fp64 for doubles"

    @classmethod
    def cost(cls, q: Query[Softmax]) -> float:
        columns = _columns(q)
        work = _pieces(columns) * _piece_seconds(q, columns)
        return step_seconds(q.device, work, 2 * q.inputs[0].nbytes, _tickets(q, columns).count)

    @classmethod
    def plan(cls, q: Query[Softmax]) -> Plan:
        columns = _columns(q)
        tickets = _tickets(q, columns)
        desc = SoftmaxDoublesDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            count=columns.count,
            inner=columns.inner,
            inner_runs=-(-columns.inner // COLUMNS),
            pieces=_pieces(columns),
            ticket_pieces=tickets.each,
            logarithm=int(q.primitive.log),
        )
        return Plan((Tile("softmax_doubles", desc, tickets.count, scratch=4 * RUN * RUN_BYTES),))


def _columns(q: Query[Softmax]) -> Columns:
    axes = sorted(q.primitive.axes)
    return Columns.of(q.inputs[0].shape, axes[0], axes[-1])


def _pieces(columns: Columns) -> int:
    return columns.images * -(-columns.inner // COLUMNS)


def _piece_seconds(q: Query[Softmax], columns: Columns) -> float:
    side = 1 if columns.inner == 1 else columns.count
    vectors = -(-(columns.count if columns.inner == 1 else min(columns.inner, COLUMNS)) // LANES)
    return side * (vectors * _SLOW + 8) * q.device.costs.unit("copy.vector")


def _tickets(q: Query[Softmax], columns: Columns) -> TicketRanges:
    return runs(_pieces(columns), _piece_seconds(q, columns), q.device)
