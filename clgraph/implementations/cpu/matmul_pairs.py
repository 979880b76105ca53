"""Products of bfloat16 with constant right sides on CPUs that multiply it, two neighbours at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.cost import TicketRanges, runs, split, step_seconds, ticket_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.matmul import CACHED
from clgraph.implementations.cpu.matmul_instances import GROUP
from clgraph.implementations.cpu.matmul_tickets import MatMulTickets, row_seconds
from clgraph.implementations.cpu.pair_blocks import PairBlock, pair_block, tile_seconds
from clgraph.implementations.cpu.strided_product import StridedProduct, matmul_limits, matmul_posts, strided_product
from clgraph.ops.matmul import MatMul
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import BFLOATS, Query

_OVER = 1.04
"""What rows take beyond their products: those of floats by how many more are made in a time."""

_PADDED = 2 * LANES
"""Elements that rows of bfloat16 are multiples of."""


@descriptor("bfloat_rows", library="bfloat")
class BfloatRowsDesc(Descriptor):
    """Fields as in ``bfloat_rows.cl``."""

    x: Pointer
    out: Pointer
    x_batch: Long
    x_row: Int
    batch_rows: Int
    rows: Int
    depth: Int
    padded: Int
    ticket_rows: Int


@descriptor("matmul_pairs", library="bfloat", micros=("micro_pairs",))
class MatMulPairsDesc(Descriptor):
    """Fields as in ``matmul_pairs.cl``."""

    a: Pointer
    b: Pointer
    c: Pointer
    a_batch: Long
    b_group: Long
    c_batch: Long
    a_row: Int
    c_row: Int
    rows: Int
    columns: Int
    pairs: Int
    groups: Int
    ticket_groups: Int
    tiers: Int
    ticket_rows: Int
    spans: Int
    widest: Int
    first_id: Int
    tiles_id: Int
    fetched: Int


def pairs_format(q: Query[MatMul]) -> Format:
    """Return [n / 64][k / 2][64][2] for the right side, whichever way it is stored."""
    column = 0 if q.primitive.transpose_b else 1
    return Format((column, 1 - column), ((column, GROUP), (1 - column, 2)))


@remembered
def _tickets(q: Query[MatMul]) -> MatMulTickets:
    """Return how the product is cut into tickets."""
    p = strided_product(q)
    groups, row = -(-p.columns // GROUP), _row_seconds(q, p)
    wanted = ticket_seconds(row * p.rows.size * groups * p.batch.size, q.device)
    whole = TicketRanges(1, p.rows.size)
    if groups >= 4 * q.device.workers or row * p.rows.size <= wanted:
        return MatMulTickets(whole, split(groups, row * p.rows.size, wanted, q.device.workers), whole)
    most = _block(q, p).rows
    found = split(-(-p.rows.size // most), row * most, wanted, q.device.workers)
    rows = found.each * most
    return MatMulTickets(TicketRanges(-(-p.rows.size // rows), rows), TicketRanges(groups, 1), whole)


def _row_seconds(q: Query[MatMul], p: StridedProduct) -> float:
    """Return one worker's time for one row of one group of columns."""
    if (block := _block(q, p)).tiles_id < 0:
        return row_seconds(q, p) * _OVER / q.device.costs.bf16_products
    rows = min(block.rows, p.rows.size)
    return tile_seconds(q.device, -(-p.depth // 2), rows) / rows


def _block(q: Query[MatMul], p: StridedProduct) -> PairBlock:
    return pair_block(q.device, -(-p.depth // 2))


def _padded(p: StridedProduct) -> int:
    return -(-p.depth // _PADDED) * _PADDED


def _rounding(q: Query[MatMul], p: StridedProduct) -> TicketRanges:
    """Return the tickets of rows that are rounded."""
    return runs(p.rows.size * p.batch.size, _rounding_seconds(q, p), q.device)


def _rounding_seconds(q: Query[MatMul], p: StridedProduct) -> float:
    """Return one worker's time for rounding a row."""
    return -(-p.depth // LANES) * q.device.costs.unit("copy.vector")


@implements(
    MatMul,
    name="matmul.bf16_pairs",
    serves=replace(
        TILE,
        dtypes=frozenset({DType.F32, DType.BF16}),
        mixed=True,
        halos=False,
        features=frozenset({"bf16", BFLOATS}),
    ),
)
class MatMulPairs(Implementation[MatMul]):
    """Rows are rounded to bfloat16, and multiplied by a packed matrix of it in blocks of 6 or 32 by 64 columns."""

    @classmethod
    def limits(cls, q: Query[MatMul]) -> str | None:
        if 1 not in q.constant or q.inputs[1].dtype != DType.BF16 or q.inputs[1].rank != 2:
            return "requires a constant matrix of bfloat16 on the right"
        if any(x.dtype != DType.F32 for i, x in enumerate((*q.inputs, *q.outputs)) if i != 1):
            return "serves float32 beside it"
        packed = q.inputs[1].format == pairs_format(q)
        plain = q.with_layouts((q.inputs[0], q.inputs[1].plain(), *q.inputs[2:]), q.outputs) if packed else q
        if (why := matmul_limits(plain)) is not None:
            return why
        return None if strided_product(q).a_step == 1 else "rounds rows whose columns are side by side"

    @classmethod
    def weights(cls, q: Query[MatMul]) -> Mapping[int, Format]:
        return {1: pairs_format(q)}

    @classmethod
    def cost(cls, q: Query[MatMul]) -> float:
        p, t = strided_product(q), _tickets(q)
        rows = p.rows.size * p.batch.size
        begin = step_seconds(q.device, rows * _rounding_seconds(q, p), q.inputs[0].nbytes * 1.5, _rounding(q, p).count)
        work = _row_seconds(q, p) * rows * -(-p.columns // GROUP)
        moved = q.inputs[0].nbytes // 2 + q.outputs[0].nbytes
        tickets = t.rows.count * t.groups.count * p.batch.size
        return begin + step_seconds(q.device, work, moved, tickets, weights=q.inputs[1].nbytes)

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        p, t = strided_product(q), _tickets(q)
        rows, padded, pairs, first = p.rows.size, _padded(p), -(-p.depth // 2), _rounding(q, p)
        block = _block(q, p)
        rounding = BfloatRowsDesc(
            x=Ref("in0", 4 * q.inputs[0].origin),
            out=Ref("scratch0"),
            x_batch=p.batch.pitches[0],
            x_row=p.rows.pitches[0],
            batch_rows=rows,
            rows=rows * p.batch.size,
            depth=p.depth,
            padded=padded,
            ticket_rows=first.each,
        )
        product = MatMulPairsDesc(
            a=Ref("scratch0"),
            b=Ref("in1"),
            c=Ref("out0"),
            a_batch=rows * padded,
            b_group=pairs * 2 * GROUP,
            c_batch=p.batch.pitches[2],
            a_row=padded,
            c_row=p.rows.pitches[2],
            rows=rows,
            columns=p.columns,
            pairs=pairs,
            groups=-(-p.columns // GROUP),
            ticket_groups=t.groups.each,
            tiers=t.groups.count,
            ticket_rows=t.rows.each,
            spans=t.rows.count,
            widest=block.rows,
            first_id=0,
            tiles_id=block.tiles_id,
            fetched=fetched(-(-t.rows.each // block.rows)) if q.inputs[1].nbytes > CACHED else 0,
        )
        tickets = t.rows.count * t.groups.count * p.batch.size
        steps = (
            Tile("bfloat_rows", rounding, first.count),
            Tile("matmul_pairs", product, tickets, post=matmul_posts(q, p)),
        )
        # Of the last rows a whole block is read.
        return Plan(steps, (2 * (rows * p.batch.size + block.rows) * padded,))


def fetched(pieces: int) -> int:
    """Return how many elements of the next group each pair of *pieces* fetches, so that it is there in time."""
    return min(-(-2 * GROUP // pieces), 2 * LANES)
