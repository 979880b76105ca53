"""Indices of the largest or smallest elements along any axis on CPU devices, of any element type."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.elements import RUN, RUN_BYTES, TYPES, domain_of
from clgraph.implementations.cpu.geometry import LANES, count_refusal
from clgraph.implementations.cpu.rows import Columns
from clgraph.ops.arg import ArgExtremum
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

PIECE_SECONDS = 30e-9
"""What beginning a line or a run of neighbours takes."""


@descriptor("arg_elements", any_alignment=True)
class ArgElementsDesc(Descriptor):
    """Fields as in ``arg_elements.cl``."""

    inp: Pointer
    out: Pointer
    type: Int
    itemsize: Int
    domain: Int
    smallest: Int
    last: Int
    count: Int
    inner: Int
    inner_runs: Int
    pieces: Int
    ticket_pieces: Int


@implements(
    ArgExtremum,
    name="arg.elements",
    serves=Serves(dtypes=frozenset(TYPES) - {DType.BOOL}, mixed=True, kinds=frozenset({"cpu"})),
)
class ArgElements(Implementation[ArgExtremum]):
    """Lines, or runs of neighbours that are searched side by side."""

    @classmethod
    def limits(cls, q: Query[ArgExtremum]) -> str | None:
        x, (y,) = q.inputs[0], q.outputs
        if not x.is_dense_plain or not y.is_dense_plain or not x.count:
            return "searches dense plain tensors of some elements"
        if x.dtype == DType.F64 and "fp64" not in q.device.features:
            return "needs fp64 for doubles"
        return count_refusal(q)

    @classmethod
    def cost(cls, q: Query[ArgExtremum]) -> float:
        columns = _columns(q)
        work = _pieces(columns) * _piece_seconds(q, columns)
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, work, moved, _tickets(q, columns).count)

    @classmethod
    def plan(cls, q: Query[ArgExtremum]) -> Plan:
        columns, x, p = _columns(q), q.inputs[0].dtype, q.primitive
        tickets = _tickets(q, columns)
        desc = ArgElementsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            type=TYPES[x],
            itemsize=x.itemsize,
            domain=domain_of(x),
            smallest=int(p.smallest),
            last=int(p.last),
            count=columns.count,
            inner=columns.inner,
            inner_runs=-(-columns.inner // RUN),
            pieces=_pieces(columns),
            ticket_pieces=tickets.each,
        )
        return Plan((Tile("arg_elements", desc, tickets.count, scratch=4 * RUN * RUN_BYTES),))


def _columns(q: Query[ArgExtremum]) -> Columns:
    return Columns.of(q.inputs[0].shape, q.primitive.axis, q.primitive.axis)


def _pieces(columns: Columns) -> int:
    return columns.images * -(-columns.inner // RUN)


def _piece_seconds(q: Query[ArgExtremum], columns: Columns) -> float:
    """Return what a line takes, or a run of neighbours: vectors, those of 64 bits twice, a conversion as much again."""
    x = q.inputs[0].dtype
    passes = (1 + x.itemsize // 8) * (1 + (x not in (DType.F32, DType.F64, DType.I32, DType.I64)))
    if columns.inner == 1:
        vectors = -(-columns.count // LANES) + 4 * -(-columns.count // RUN)
    else:
        vectors = columns.count * (2 * -(-min(columns.inner, RUN) // LANES) + 4)
    return PIECE_SECONDS + vectors * passes * q.device.costs.unit("copy.vector")


def _tickets(q: Query[ArgExtremum], columns: Columns) -> TicketRanges:
    return runs(_pieces(columns), _piece_seconds(q, columns), q.device)
