"""Products with constant right sides of 16 bits an element on CPU devices, computed in float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.cost import step_seconds
from clgraph.implementations.cpu.elements import TYPES
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.matmul import (
    GROUP,
    matmul_limits,
    matmul_posts,
    matmul_tickets,
    packed_format,
    row_seconds,
    strided_product,
    widest_instance,
)
from clgraph.ops.matmul import MatMul
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.library import Micro, micro_family
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

NARROW = (DType.F16, DType.BF16)
"""Types of the right side, in the order of the instances."""

PANEL = 1024
"""Rows of it that are floats at a time, as in ``matmul_narrow.cl``."""

_INSTANCES = [Micro.of("matmul/micro_narrow_row.cl", BFLOAT=int(dtype == DType.BF16)) for dtype in NARROW]

ROW_MICROS = micro_family("micro_narrow_row", {16: _INSTANCES, 8: _INSTANCES})


@descriptor("matmul_narrow", micros=("micro_matmul", "micro_narrow_row"))
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
    type: Int
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


def _widening(q: Query[MatMul], tickets: int) -> float:
    """Return one worker's time for the floats that the tickets of *tickets* runs of rows make of the right side."""
    return tickets * q.inputs[1].count / LANES * q.device.costs.unit("copy.vector")


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
        t = matmul_tickets(q, p)
        work = row_seconds(q, p) * p.rows.size * -(-p.columns // GROUP) * p.batch.size
        if p.rows.size > 1:
            work += _widening(q, t.rows.count * p.batch.size)
        tickets = t.rows.count * t.groups.count * p.batch.size
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, work, moved, tickets, weights=q.inputs[1].nbytes)

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        p, widest = strided_product(q), widest_instance(q.device)
        b, t = q.inputs[1], matmul_tickets(q, p)
        desc = MatMulNarrowDesc(
            a=Ref("in0", 4 * q.inputs[0].origin),
            b=Ref("in1"),
            c=Ref("out0"),
            a_batch=p.batch.pitches[0],
            b_group=p.depth * GROUP,
            c_batch=p.batch.pitches[2],
            a_row=p.rows.pitches[0],
            a_step=p.a_step,
            type=TYPES[b.dtype],
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
        )
        scratch = 4 * GROUP * min(PANEL, p.depth) if p.rows.size > 1 else 0
        tickets = t.rows.count * t.groups.count * p.batch.size
        return Plan((Tile("matmul_narrow", desc, tickets, scratch=scratch, post=matmul_posts(q, p)),))
