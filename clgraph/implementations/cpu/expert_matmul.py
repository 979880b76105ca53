"""Products of rows with their experts' matrices on CPU devices: those packed beforehand, others read in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.cost import TicketRanges, split, step_seconds, ticket_seconds, worker_flops
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.matmul_instances import GROUP, widest_instance
from clgraph.implementations.cpu.rows import broadcast_pitches
from clgraph.ops.expert_matmul import ExpertMatMul
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import post_steps
from clgraph.selector.query import Query

_AHEAD = 2048
"""Floats that a product with one row fetches ahead: about what memory delivers in its latency."""


@descriptor("expert_matmul_rows", micros=("micro_matmul",), any_alignment=True)
class ExpertMatMulRowsDesc(Descriptor):
    """Fields as in ``expert_matmul_rows.cl``."""

    a: Pointer
    b: Pointer
    numbers: Pointer
    c: Pointer
    b_expert: Long
    b_group: Long
    a_row: Int
    wide: Int
    c_row: Int
    packed: Int
    b_row: Int
    b_column: Int
    rows: Int
    columns: Int
    depth: Int
    experts: Int
    by_row: Int
    groups: Int
    ticket_groups: Int
    tiers: Int
    nb: Int
    widest: Int
    first_id: Int
    ahead: Int


@frozen
class _Sizes:
    rows: int
    depth: int
    columns: int
    experts: int

    @property
    def slots(self) -> int:
        """Tickets one below another: experts, or rows where they are fewer."""
        return min(self.rows, self.experts)


def _sizes(q: Query[ExpertMatMul]) -> _Sizes:
    (rows, depth), experts = q.inputs[0].shape, q.inputs[1].shape[0]
    return _Sizes(rows, depth, q.outputs[0].shape[1], experts)


def _packed(transposed: bool) -> Format:
    """Return ``[experts, n / 64][k][64]`` for the matrices, whichever way they are stored."""
    return Format((0, 1, 2), ((1, GROUP),)) if transposed else Format((0, 2, 1), ((2, GROUP),))


def _group_seconds(q: Query[ExpertMatMul], p: _Sizes) -> float:
    """Return one worker's time for all rows of one group of columns."""
    widest = widest_instance(q.device)
    count = max(1, min(widest.rows, p.rows // p.slots))
    row = p.depth * half_cycles(widest.nb, count) / count * (GROUP // LANES // widest.nb) * 2 * LANES
    return row * p.rows / worker_flops(q.device)


def _tiers(q: Query[ExpertMatMul], p: _Sizes) -> TicketRanges:
    """Return the runs of column groups of a ticket: several a worker of one expert, who may have most of the rows."""
    groups, all_rows = -(-p.columns // GROUP), _group_seconds(q, p)
    wanted = ticket_seconds(all_rows * groups, q.device)
    return split(groups, all_rows / p.slots, wanted, q.device.workers)


@implements(
    ExpertMatMul,
    name="expert_matmul.rows",
    serves=replace(TILE, dtypes=frozenset({DType.F32, DType.I32, DType.I64}), mixed=True, halos=False),
)
class ExpertMatMulRows(Implementation[ExpertMatMul]):
    """Register blocks of 6 rows by 64 columns (16 on narrow devices) of the rows that each expert has."""

    @classmethod
    def limits(cls, q: Query[ExpertMatMul]) -> str | None:
        (a, w, numbers), c = q.own, q.outputs[0]
        if any(x.dtype != DType.F32 for x in (a, w, c, *(q.inputs[s] for s in q.post_slots))):
            return "multiplies float32"
        if not (a.is_dense_plain and numbers.is_dense_plain and c.is_dense_plain):
            return "multiplies dense plain tensors"
        if not w.format.is_plain and w.format != _packed(q.primitive.transpose_b):
            return f"requires matrices that are plain or in {_packed(q.primitive.transpose_b)}, not {w.format}"
        if odd := [q.inputs[s] for s in q.post_slots if q.inputs[s].format.blocks]:
            return f"reads operands in plain formats, not {odd[0]}"
        if any(f.operation is None or len(f.operands) > 1 for f in q.post):
            return "applies operations that have a post-operation code"
        return None

    @classmethod
    def weights(cls, q: Query[ExpertMatMul]) -> Mapping[int, Format]:
        return {1: _packed(q.primitive.transpose_b)} if 1 in q.constant else {}

    @classmethod
    def cost(cls, q: Query[ExpertMatMul]) -> float:
        p = _sizes(q)
        t = _tiers(q, p)
        weights = q.inputs[1].nbytes * p.slots // p.experts
        traffic = q.inputs[0].nbytes + q.outputs[0].nbytes
        work = _group_seconds(q, p) * -(-p.columns // GROUP)
        return step_seconds(q.device, work, traffic, p.slots * t.count, weights=weights)

    @classmethod
    def plan(cls, q: Query[ExpertMatMul]) -> Plan:
        (a, w, numbers), c, p = q.own, q.outputs[0], _sizes(q)
        t, widest, packed = _tiers(q, p), widest_instance(q.device), bool(w.format.blocks)
        plain = w if w.format.is_plain else w.plain()
        b_expert, b_row, b_column = plain.all_pitches
        if q.primitive.transpose_b:
            b_row, b_column = b_column, b_row
        desc = ExpertMatMulRowsDesc(
            a=Ref("in0", 4 * a.origin),
            b=Ref("in1", 0 if packed else 4 * w.origin),
            numbers=Ref("in2", numbers.dtype.itemsize * numbers.origin),
            c=Ref("out0"),
            b_expert=w.span // p.experts if packed else b_expert,
            b_group=p.depth * GROUP if packed else GROUP * b_column,
            a_row=a.all_pitches[0],
            wide=int(numbers.dtype == DType.I64),
            c_row=c.all_pitches[0],
            packed=int(packed),
            b_row=GROUP if packed else b_row,
            b_column=b_column,
            rows=p.rows,
            columns=p.columns,
            depth=p.depth,
            experts=p.experts,
            by_row=int(p.rows < p.experts),
            groups=-(-p.columns // GROUP),
            ticket_groups=t.each,
            tiers=t.count,
            nb=widest.nb,
            widest=widest.rows,
            first_id=widest.first_id,
            ahead=_AHEAD,
        )
        pitches = [broadcast_pitches(q.inputs[s], 2) for s in q.post_slots]
        operands = iter([(0, 0, row, LANES * column, column) for row, column in pitches])
        post = post_steps(q, lambda layout: next(operands))
        staged = not packed and (p.columns % GROUP or b_column != 1)
        scratch = -(-p.depth // LANES) * LANES * GROUP * 4 if staged else 0
        return Plan((Tile("expert_matmul_rows", desc, p.slots * t.count, scratch=scratch, post=post),))
