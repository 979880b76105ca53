"""Products with constant right sides of 16 bits an element on CPU devices, computed in float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.cost import TicketRanges, spread_seconds, step_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.matmul_instances import GROUP, SHAPES, widest_instance
from clgraph.implementations.cpu.matmul_tickets import MatMulTickets, matmul_tickets, row_seconds
from clgraph.implementations.cpu.strided_product import (
    StridedProduct,
    matmul_limits,
    matmul_posts,
    packed_format,
    strided_product,
)
from clgraph.ops.matmul import MatMul
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.micro_kernels import Micro, micro_family
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

NARROW = (DType.F16, DType.BF16)
"""Types of the right side, in the order of the instances."""

PANEL = 1024
"""Rows of it that are floats at a time, as in ``matmul_narrow.cl``."""

_STORED = 0.5
"""The part of copying a vector that it takes to make and store it between products; Zen 5, MiniLM: 0.14 and more."""

_INSTANCES = [Micro.of("matmul/micro_narrow_row.cl", BFLOAT=int(dtype == DType.BF16)) for dtype in NARROW]


def _widening(nb: int, ur: int, dtype: DType) -> Micro:
    """Return the instance for *ur* rows by *nb* vectors of 16 columns that makes floats of *dtype*."""
    return Micro.of("matmul/micro_widening_matmul.cl", NB=nb, UR=ur, BFLOAT=int(dtype == DType.BF16))


WIDENING_MICROS = micro_family(
    "micro_widening_matmul",
    {
        simd: [_widening(nb, ur, dtype) for dtype in NARROW for ur in range(1, most + 1)]
        for simd, (nb, most) in SHAPES.items()
    },
)

ROW_MICROS = micro_family("micro_narrow_row", {16: _INSTANCES, 8: _INSTANCES})


@descriptor("matmul_narrow", micros=("micro_matmul", "micro_narrow_row", "micro_widening_matmul"))
class MatMulNarrowDesc(Descriptor):
    """Fields as in ``matmul_narrow.cl``."""

    a: Pointer
    b: Pointer
    c: Pointer
    a_batch: Long
    b_group: Long
    c_batch: Long
    a_row: Int
    a_step: Int
    c_row: Int
    rows: Int
    columns: Int
    depth: Int
    groups: Int
    ticket_groups: Int
    tiers: Int
    ticket_rows: Int
    spans: Int
    nb: Int
    widest: Int
    first_id: Int
    row_id: Int
    widening_id: Int


def _group_seconds(q: Query[MatMul], p: StridedProduct) -> float:
    """Return one worker's time for the floats that a ticket makes of a group of columns."""
    return _STORED * p.depth * GROUP / LANES * q.device.costs.unit("copy.vector") if p.rows.size > 1 else 0.0


def _seconds(q: Query[MatMul], p: StridedProduct, t: MatMulTickets) -> float:
    """Return one worker's time for all tickets: every run of rows makes the floats anew."""
    groups = -(-p.columns // GROUP)
    return (row_seconds(q, p) * p.rows.size + _group_seconds(q, p) * t.rows.count) * groups * p.batch.size


@remembered
def _tickets(q: Query[MatMul]) -> MatMulTickets:
    """Return how the product is cut into tickets: as one of floats, but into the runs of rows that take least."""
    p = strided_product(q)
    whole = TicketRanges(1, p.rows.size)
    found = matmul_tickets(q, p, whole)
    if found.rows.count == 1:
        return found
    most, groups = widest_instance(q.device).rows, -(-p.columns // GROUP)
    blocks = -(-p.rows.size // most)
    able = {-(-blocks // parts) * most for parts in range(1, min(blocks, 4 * q.device.workers) + 1)}
    cut = [MatMulTickets(TicketRanges(-(-p.rows.size // each), each), TicketRanges(groups, 1), whole) for each in able]
    return min(cut, key=lambda t: (_spread(q, p, t), t.rows.count))


def _count(p: StridedProduct, t: MatMulTickets) -> int:
    """Return how many tickets there are."""
    return t.rows.count * t.groups.count * p.batch.size


def _spread(q: Query[MatMul], p: StridedProduct, t: MatMulTickets) -> float:
    return spread_seconds(_seconds(q, p, t), _count(p, t), q.device.workers, q.device.crowding)


@implements(
    MatMul,
    name="matmul.narrow",
    serves=replace(TILE, dtypes=frozenset({DType.F32, *NARROW}), mixed=True, halos=False),
)
class MatMulNarrow(Implementation[MatMul]):
    """Row-major matrices of floats times packed ones of halves or bfloat16, which become floats as they are read."""

    @classmethod
    def limits(cls, q: Query[MatMul]) -> str | None:
        if 1 not in q.constant or q.inputs[1].dtype not in NARROW or q.inputs[1].rank != 2:
            return "requires a constant matrix of 16 bits an element on the right"
        if any(x.dtype != DType.F32 for i, x in enumerate((*q.inputs, *q.outputs)) if i != 1):
            return "serves float32 beside it"
        return matmul_limits(q)

    @classmethod
    def weights(cls, q: Query[MatMul]) -> Mapping[int, Format]:
        return {1: packed_format(q)}

    @classmethod
    def cost(cls, q: Query[MatMul]) -> float:
        p = strided_product(q)
        t = _tickets(q)
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, _seconds(q, p, t), moved, _count(p, t), weights=q.inputs[1].nbytes)

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        p, widest = strided_product(q), widest_instance(q.device)
        b, t = q.inputs[1], _tickets(q)
        desc = MatMulNarrowDesc(
            a=Ref("in0", 4 * q.inputs[0].origin),
            b=Ref("in1"),
            c=Ref("out0"),
            a_batch=p.batch.pitches[0],
            b_group=p.depth * GROUP,
            c_batch=p.batch.pitches[2],
            a_row=p.rows.pitches[0],
            a_step=p.a_step,
            c_row=p.rows.pitches[2],
            rows=p.rows.size,
            columns=p.columns,
            depth=p.depth,
            groups=-(-p.columns // GROUP),
            ticket_groups=t.groups.each,
            tiers=t.groups.count,
            ticket_rows=t.rows.each,
            spans=t.rows.count,
            nb=widest.nb,
            widest=widest.rows,
            first_id=widest.first_id,
            row_id=NARROW.index(b.dtype),
            widening_id=WIDENING_MICROS.id(q.device.simd, _widening(widest.nb, 1, b.dtype)),
        )
        scratch = 4 * GROUP * min(PANEL, p.depth) if p.rows.size > 1 else 0
        return Plan((Tile("matmul_narrow", desc, _count(p, t), scratch=scratch, post=matmul_posts(q, p)),))
