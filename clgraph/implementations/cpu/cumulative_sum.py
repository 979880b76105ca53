"""Running sums of plain tensors on CPU devices: of floats along an axis with others behind it, and of any elements."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.cumulate_elements import ANY_NUMBERS, CumulatedElements
from clgraph.implementations.cpu.rows import Columns
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("cumulative_sum_planes", library="rare", any_alignment=True)
class CumulativeSumPlanesDesc(Descriptor):
    """Fields as in ``cumulative_sum_planes.cl``."""

    inp: Pointer
    out: Pointer
    images: Int
    count: Int
    inner: Int
    vectors: Int
    ticket_vectors: Int
    exclusive: Int
    reverse: Int


def _columns(q: Query[CumulativeSum]) -> Columns:
    axis = q.primitive.axis or 0
    return Columns.of(q.inputs[0].shape, axis, axis)


def _work(q: Query[CumulativeSum]) -> tuple[int, float, TicketRanges]:
    """Return vectors of the tensor's columns, one worker's seconds for one, and how they are cut into tickets."""
    columns = _columns(q)
    vectors, each = columns.images * columns.vectors, columns.count * q.device.costs.unit("copy.vector")
    return vectors, each, runs(vectors, each, q.device)


@implements(
    CumulativeSum,
    name="cumulative_sum.planes",
    serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"})),
)
class CumulativeSumPlanes(Implementation[CumulativeSum]):
    """Sixteen neighbours at a time, each with its own sum."""

    @classmethod
    def limits(cls, q: Query[CumulativeSum]) -> str | None:
        if not q.inputs[0].is_dense_plain or not q.outputs[0].is_dense_plain:
            return "serves dense plain tensors"
        return "serves axes with others behind them" if _columns(q).inner == 1 else None

    @classmethod
    def overwrites(cls, q: Query[CumulativeSum]) -> frozenset[int]:
        return frozenset({0})

    @classmethod
    def cost(cls, q: Query[CumulativeSum]) -> float:
        vectors, each, tickets = _work(q)
        return step_seconds(q.device, vectors * each, 2 * q.inputs[0].nbytes, tickets.count)

    @classmethod
    def plan(cls, q: Query[CumulativeSum]) -> Plan:
        columns, (_, _, tickets) = _columns(q), _work(q)
        desc = CumulativeSumPlanesDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            images=columns.images,
            count=columns.count,
            inner=columns.inner,
            vectors=columns.vectors,
            ticket_vectors=tickets.each,
            exclusive=int(q.primitive.exclusive),
            reverse=int(q.primitive.reverse),
        )
        return Plan((Tile("cumulative_sum_planes", desc, tickets.count),))


@implements(CumulativeSum, name="cumulative_sum.elements", serves=ANY_NUMBERS)
class CumulativeSumElements(CumulatedElements):
    """Along any axis."""
