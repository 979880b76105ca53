"""Running sums and products of elements of any type along any axis on CPU devices."""

from __future__ import annotations

from typing import Any, ClassVar

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.elements import RUN, RUN_BYTES, TYPES, domain_of, signed
from clgraph.implementations.cpu.geometry import LANES, count_refusal
from clgraph.implementations.cpu.rows import Columns
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

ANY_NUMBERS = Serves(dtypes=(frozenset(TYPES) | {DType.U64}) - {DType.BOOL}, kinds=frozenset({"cpu"}))

LINE = 12.0
"""What 16 elements of a line take, one after another, in the time that a vector of 16 floats takes to copy."""


@descriptor("cumulate_elements", any_alignment=True)
class CumulateElementsDesc(Descriptor):
    """Fields as in ``cumulate_elements.cl``."""

    inp: Pointer
    out: Pointer
    type: Int
    itemsize: Int
    domain: Int
    product: Int
    exclusive: Int
    reverse: Int
    count: Int
    inner: Int
    inner_runs: Int
    pieces: Int
    ticket_pieces: Int


class CumulatedElements(Implementation[Any]):
    """Lines, or runs of neighbours that are summed up side by side.

    Attributes:
        product: Whether products are made, not sums.
    """

    product: ClassVar[bool] = False

    @classmethod
    def limits(cls, q: Query[Any]) -> str | None:
        if not q.inputs[0].is_dense_plain or not q.outputs[0].is_dense_plain:
            return "serves dense plain tensors"
        if q.inputs[0].dtype == DType.F64 and "fp64" not in q.device.features:
            return "needs fp64 for doubles"
        return count_refusal(q)

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        columns = _columns(q)
        work = _pieces(columns) * _piece_seconds(q, columns)
        return step_seconds(q.device, work, 2 * q.inputs[0].nbytes, _tickets(q, columns).count)

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        columns, x = _columns(q), q.inputs[0].dtype
        tickets = _tickets(q, columns)
        desc = CumulateElementsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            type=TYPES[signed(x)],
            itemsize=x.itemsize,
            domain=domain_of(x),
            product=int(cls.product),
            exclusive=int(q.primitive.exclusive),
            reverse=int(q.primitive.reverse),
            count=columns.count,
            inner=columns.inner,
            inner_runs=-(-columns.inner // RUN),
            pieces=_pieces(columns),
            ticket_pieces=tickets.each,
        )
        return Plan((Tile("cumulate_elements", desc, tickets.count, scratch=(2 * RUN + LANES) * RUN_BYTES),))


def _columns(q: Query[Any]) -> Columns:
    axis = q.primitive.axis or 0
    return Columns.of(q.inputs[0].shape, axis, axis)


def _pieces(columns: Columns) -> int:
    return columns.images * -(-columns.inner // RUN)


def _piece_seconds(q: Query[Any], columns: Columns) -> float:
    passes = 2 + (q.inputs[0].dtype not in (DType.F32, DType.F64, DType.I32, DType.I64))
    if columns.inner == 1:
        vectors = -(-columns.count // LANES) * (LINE + passes)
    else:
        vectors = columns.count * (-(-min(columns.inner, RUN) // LANES) + 2) * passes
    return vectors * q.device.costs.unit("copy.vector")


def _tickets(q: Query[Any], columns: Columns) -> TicketRanges:
    return runs(_pieces(columns), _piece_seconds(q, columns), q.device)
