"""Products of plain matrices on CPU devices: constant right sides packed beforehand, others read in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clgraph.core.format import Format
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.cost import step_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.matmul_instances import GROUP, Widest, widest_instance
from clgraph.implementations.cpu.matmul_tickets import groups_computed, matmul_tickets, row_parts, row_seconds
from clgraph.implementations.cpu.narrow_rows import is_elementwise, narrow_scratch
from clgraph.implementations.cpu.strided_product import (
    StridedProduct,
    columns_copied,
    is_dots,
    matmul_limits,
    matmul_posts,
    nested_product,
    packed_format,
)
from clgraph.ops.matmul import MatMul
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

AHEAD = 2048
"""Floats that a product with one row fetches ahead: about what memory delivers in its latency."""

BLOCK_BYTES = 4 * 12 * LANES
"""Of a block of 12 rows of less than a vector, or 6 of two."""

CACHED = 1 << 19
"""Bytes of a right side that the second-level cache may still hold from the run before."""


@descriptor("matmul_rows", micros=("micro_matmul",), any_alignment=True)
class MatMulRowsDesc(Descriptor):
    """Fields as in ``matmul_rows.cl``."""

    a: Pointer
    b: Pointer
    c: Pointer
    a_batch: Long
    b_batch: Long
    a_outer: Long
    b_outer: Long
    b_group: Long
    c_batch: Long
    inner: Int
    a_row: Int
    a_step: Int
    b_row: Int
    b_column: Int
    packed: Int
    c_row: Int
    rows: Int
    columns: Int
    depth: Int
    groups: Int
    ticket_groups: Int
    tiers: Int
    parts: Int
    part_rows: Int
    ticket_rows: Int
    spans: Int
    nb: Int
    widest: Int
    first_id: Int
    narrow_id: Int
    ahead: Int
    fetched: Int
    narrow: Int
    dots: Int

    def reads_in_place(self, slot: int) -> bool:
        """Whether *slot* is not b, or b is read once.

        Of a, single floats are read, from any place. A b that every block of rows reads is sooner copied to where
        vectors begin with lines of the cache: 512 rows by such a one take 1.4 times as long where the caller has it.
        """
        return slot != 1 or bool(self.dots) or (not self.packed and self.rows <= self.widest)


@implements(MatMul, name="matmul.rows", serves=replace(TILE, halos=False))
class MatMulRows(Implementation[MatMul]):
    """Row-major matrices in register blocks of 6 rows by 64 columns (16 on narrow devices)."""

    @classmethod
    def limits(cls, q: Query[MatMul]) -> str | None:
        return matmul_limits(q, nested_product)

    @classmethod
    def weights(cls, q: Query[MatMul]) -> Mapping[int, Format]:
        if 1 not in q.constant or is_dots(q, nested_product(q)):
            return {}
        return {1: packed_format(q)} if q.inputs[1].rank > 1 else {}

    @classmethod
    def cost(cls, q: Query[MatMul]) -> float:
        p = nested_product(q)
        t = matmul_tickets(q, p, row_parts(q, p))
        work = row_seconds(q, p) * p.rows.size * groups_computed(q, p) * p.matrices
        traffic = q.inputs[0].nbytes + q.outputs[0].nbytes
        tickets = t.parts.count * t.rows.count * t.groups.count * p.matrices
        return step_seconds(q.device, work, traffic, tickets, weights=q.inputs[1].nbytes)

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        p = nested_product(q)
        b, t, widest = q.inputs[1], matmul_tickets(q, p, row_parts(q, p)), widest_instance(q.device)
        packed, dots = bool(b.format.blocks), is_dots(q, p)
        post = matmul_posts(q, p)
        narrow = (packed or dots) and bool(post) and p.columns == p.rows.pitches[2] < LANES and is_elementwise(post)
        b_batch, b_outer = _packed_pitches(b, p) if packed else (p.batch.pitches[1], p.outer.pitches[1])
        desc = MatMulRowsDesc(
            a=Ref("in0", 4 * q.inputs[0].origin),
            b=Ref("in1", 0 if packed else 4 * b.origin),
            c=Ref("out0"),
            a_batch=p.batch.pitches[0],
            b_batch=b_batch,
            a_outer=p.outer.pitches[0],
            b_outer=b_outer,
            b_group=p.depth * GROUP if packed else GROUP * p.b_column,
            c_batch=p.batch.pitches[2],
            inner=p.batch.size,
            a_row=p.rows.pitches[0],
            a_step=p.a_step,
            b_row=p.b_row,
            b_column=p.b_column,
            packed=int(packed),
            c_row=p.rows.pitches[2],
            rows=p.rows.size,
            columns=p.columns,
            depth=p.depth,
            groups=-(-p.columns // GROUP),
            ticket_groups=t.groups.each,
            tiers=t.groups.count,
            parts=t.parts.count,
            part_rows=t.parts.each,
            ticket_rows=t.rows.each,
            spans=t.rows.count,
            nb=widest.nb,
            widest=widest.rows,
            first_id=widest.first_id,
            narrow_id=widest.narrow_id,
            ahead=AHEAD if packed and p.rows.size == 1 else 0,
            fetched=_fetched(t.rows.each, p, widest) if packed and b.nbytes > CACHED else 0,
            narrow=_aside(p) if narrow else 0,
            dots=int(dots),
        )
        staged = not packed and (p.columns % GROUP or p.b_column != 1)
        scratch = columns_copied(p) * 4 if dots else -(-p.depth // LANES) * LANES * GROUP * 4 if staged else 0
        scratch = max(scratch, _aside(p) + BLOCK_BYTES) if narrow else scratch
        tickets = t.parts.count * t.rows.count * t.groups.count * p.matrices
        return Plan((Tile("matmul_rows", desc, tickets, scratch=scratch, post=post),))


def _aside(p: StridedProduct) -> int:
    """Return the bytes in front of a block of narrow rows in scratch."""
    return -(-narrow_scratch(p.columns) // 64) * 64


def _packed_pitches(b: Layout, p: StridedProduct) -> tuple[int, int]:
    """Return the floats from one packed matrix of *b* to the next along the batch axis and the outer one."""
    inner, outer = (axis.size if axis.pitches[1] else 1 for axis in (p.batch, p.outer))
    each = b.span // (inner * outer)
    return each * (inner > 1), each * inner * (outer > 1)


def _fetched(rows: int, p: StridedProduct, widest: Widest) -> int:
    """Return how many floats of the next group each step of a product fetches, so that it is there in time.

    A group is read over and over, by each block of rows; its first reader would wait for memory.
    """
    blocks = -(-rows // widest.rows) * (GROUP // LANES // widest.nb)
    return min(-(-GROUP // blocks), 2 * LANES) if rows > 1 else 0
