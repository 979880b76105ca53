"""The best elements along an axis on CPU devices: few of many kept in a heap, or all sorted by their digits."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.columns import Columns
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.element_types import RUN, RUN_BYTES, TYPES, signed
from clgraph.implementations.cpu.geometry import LANES, count_refusal
from clgraph.ops.top_k import TopK
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_ORDERS = {
    **dict.fromkeys((DType.F32, DType.F16), 0),
    **dict.fromkeys((DType.I32, DType.I16, DType.I8), 1),
    **dict.fromkeys((DType.U32, DType.U16, DType.U8), 2),
    DType.F64: 3,
    DType.I64: 4,
    DType.U64: 5,
}
"""How the bits of elements ascend: as floats', as signed, as unsigned integers', and those of 64 bits."""

_DIGITS = 8 * 256
"""Counters of the digits of a key."""
SORTED_SHARE, SORTED_COUNT = 6, 256
"""All are sorted where more than one in so many is wanted, of at least so many."""
_BESIDE = 512
"""Lines whose best are kept side by side."""
BESIDE_MOST, BESIDE_COUNT = 16, 128
"""The most of their best; for lines whose elements are neighbours, the largest product of that and their elements."""
_KEPT, _SORTED, _TAKEN = 3.0, 160.0, 1.5
"""What 16 elements take where few are kept, where all are sorted, and of lines side by side for each of the best that
they are compared with, in the time that a vector takes to copy."""
_SIDE_LINES = 128
"""Lines side by side of a ticket: whole vectors, and long runs of memory."""


@descriptor("top_k_elements", library="rare", any_alignment=True)
class TopKElementsDesc(Descriptor):
    """Fields as in ``top_k_elements.cl``."""

    inp: Pointer
    out: Pointer
    places: Pointer
    type: Int
    itemsize: Int
    order: Int
    largest: Int
    count: Int
    inner: Int
    most: Int
    sorted: Int
    lines: Int
    ticket_lines: Int


@implements(
    TopK,
    name="top_k.elements",
    serves=Serves(dtypes=frozenset(_ORDERS), mixed=True, kinds=frozenset({"cpu"})),
)
class TopKElements(Implementation[TopK]):
    """A line at a time."""

    @classmethod
    def limits(cls, q: Query[TopK]) -> str | None:
        if q.inputs[0].dtype == DType.F64 and "fp64" not in q.device.features:
            return "needs fp64 for doubles"
        if not all(v.is_dense_plain for v in (*q.inputs, *q.outputs)):
            return "serves dense plain tensors"
        return count_refusal(q) if q.outputs[0].count else "keeps at least one element"

    @classmethod
    def cost(cls, q: Query[TopK]) -> float:
        columns = _columns(q)
        work = columns.images * columns.inner * _line_seconds(q, columns)
        moved = q.inputs[0].nbytes + sum(y.nbytes for y in q.outputs)
        return step_seconds(q.device, work, moved, _tickets(q, columns).count)

    @classmethod
    def plan(cls, q: Query[TopK]) -> Plan:
        columns, x = _columns(q), q.inputs[0].dtype
        tickets, everything, beside = _tickets(q, columns), _is_sorted(q, columns), _is_beside(q, columns)
        desc = TopKElementsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            places=Ref("out1"),
            type=TYPES[signed(x)],
            itemsize=x.itemsize,
            order=_ORDERS[x],
            largest=int(q.primitive.largest),
            count=columns.count,
            inner=columns.inner,
            most=q.primitive.k or 0,
            sorted=2 if beside else int(everything),
            lines=columns.images * columns.inner,
            ticket_lines=tickets.each,
        )
        keys = 2 * columns.count if everything else (q.primitive.k or 0) * (_BESIDE if beside else 1)
        scratch = 3 * RUN * RUN_BYTES + 4 * _DIGITS + (16 if x.itemsize == 8 else 8) * keys
        return Plan((Tile("top_k_elements", desc, tickets.count, scratch=scratch),))


def _columns(q: Query[TopK]) -> Columns:
    return Columns.of(q.inputs[0].shape, q.primitive.axis, q.primitive.axis)


def _is_beside(q: Query[TopK], columns: Columns) -> bool:
    """Whether the best of sixteen lines are kept at a time."""
    most = q.primitive.k or 0
    if most > BESIDE_MOST or columns.images * columns.inner < LANES:
        return False
    return columns.inner >= LANES or (columns.inner == 1 and columns.count * most <= BESIDE_COUNT)


def _is_sorted(q: Query[TopK], columns: Columns) -> bool:
    return (
        not _is_beside(q, columns)
        and columns.count >= SORTED_COUNT
        and SORTED_SHARE * (q.primitive.k or 0) > columns.count
    )


def _line_seconds(q: Query[TopK], columns: Columns) -> float:
    each = _SORTED if _is_sorted(q, columns) else _KEPT * (1 + (columns.inner > 1))
    kept = 0 if _is_sorted(q, columns) else 4 * (q.primitive.k or 0)
    wide = 1 + (q.inputs[0].dtype.itemsize == 8)
    if _is_beside(q, columns):
        gathered = LANES if columns.inner == 1 else 1
        vectors = columns.count * (gathered + 2 + _TAKEN * min(q.primitive.k or 0, columns.count)) / LANES
        return wide * vectors * q.device.costs.unit("copy.vector")
    return wide * (-(-columns.count // LANES) * each + kept) * q.device.costs.unit("copy.vector")


def _tickets(q: Query[TopK], columns: Columns) -> TicketRanges:
    lines = columns.images * columns.inner
    found = runs(lines, _line_seconds(q, columns), q.device)
    each = -(-found.each // _SIDE_LINES) * _SIDE_LINES if _is_beside(q, columns) else found.each
    return TicketRanges(-(-lines // each), each)
