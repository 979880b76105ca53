"""Running sums of plain tensors on CPU devices: of floats along an axis with others behind it, and of any elements."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.columns import ByColumns, ColumnFields, Columns
from clgraph.implementations.cpu.cost import TicketRanges
from clgraph.implementations.cpu.cumulate_elements import ANY_NUMBERS, CumulatedElements
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

WIDEST_VECTORS = 256
"""Of a line that leaves room in the first cache, as in ``cumulative_sum_planes.cl``."""

PART = 6.0
"""What a vector that is not full takes, in the time of one that is."""


@descriptor("cumulative_sum_planes", library="rare", any_alignment=True)
class CumulativeSumPlanesDesc(ColumnFields, Descriptor):
    """Fields as in ``cumulative_sum_planes.cl``."""

    inp: Pointer
    out: Pointer
    exclusive: Int
    reverse: Int


@implements(
    CumulativeSum,
    name="cumulative_sum.planes",
    serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"})),
)
class CumulativeSumPlanes(ByColumns[CumulativeSum]):
    """Sixteen neighbours at a time, each with its own sum."""

    @classmethod
    def limits(cls, q: Query[CumulativeSum]) -> str | None:
        return "serves axes with others behind them" if cls.columns(q).inner == 1 else super().limits(q)

    @classmethod
    def overwrites(cls, q: Query[CumulativeSum]) -> frozenset[int]:
        return frozenset({0})

    @classmethod
    def columns(cls, q: Query[CumulativeSum]) -> Columns:
        axis = q.primitive.axis or 0
        return Columns.of(q.inputs[0].shape, axis, axis)

    @classmethod
    def vector_seconds(cls, q: Query[CumulativeSum]) -> float:
        columns = cls.columns(q)
        more = (PART - 1) / columns.vectors if columns.inner % LANES and columns.inner else 0
        return (1 + more) * q.device.costs.unit("copy.vector")

    @classmethod
    def _work(cls, q: Query[CumulativeSum]) -> tuple[int, float, TicketRanges]:
        vectors, each, tickets = super()._work(q)
        # In tickets as wide as this memory is read line by line.
        wide = min(WIDEST_VECTORS, -(-cls.columns(q).vectors // q.device.workers))
        return vectors, each, tickets if tickets.each >= wide else TicketRanges(-(-vectors // wide), wide)

    @classmethod
    def plan(cls, q: Query[CumulativeSum]) -> Plan:
        tickets, columns = cls.cut(q)
        desc = CumulativeSumPlanesDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            **columns,
            exclusive=int(q.primitive.exclusive),
            reverse=int(q.primitive.reverse),
        )
        return Plan((Tile("cumulative_sum_planes", desc, tickets),))


@implements(CumulativeSum, name="cumulative_sum.elements", serves=ANY_NUMBERS)
class CumulativeSumElements(CumulatedElements):
    """Along any axis."""
