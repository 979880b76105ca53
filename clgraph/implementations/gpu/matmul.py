"""Matrix products for GPUs: thin work-items, tiles in local memory."""

from __future__ import annotations

from clgraph.implementations.gpu.local_tiles import (
    DIRECT,
    SIDE,
    LocalTile,
    best_tile,
    direct_refusal,
    tile_refusal,
)
from clgraph.implementations.gpu.products import CountedProduct, counted_product, product_sizes
from clgraph.implementations.gpu.vectors import LANES, vector_jit
from clgraph.ops.matmul import MatMul, matrix_product
from clgraph.selector.general import FLOATS, General, launch
from clgraph.selector.implementation import ORDERED_F32, Serves, implements, roofline
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Argument, Launch, Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

_PLAIN = Serves(dtypes=FLOATS, kinds=frozenset({"gpu"}), fuses=FUSABLE)


@implements(MatMul, name="matmul.gpu_vectors", serves=_PLAIN, tags={ORDERED_F32})
class MatMulGpuVectors(General[MatMul]):
    """Groups of 16 x 16 work-items make tiles of 64 or 128 each way, reading four elements at once."""

    @classmethod
    def further_limits(cls, q: Query[MatMul]) -> str | None:
        return tile_refusal(q.device) or vector_limits(q)

    @classmethod
    def cost(cls, q: Query[MatMul]) -> float:
        return max(roofline(q, 1.0, 0.6), q.device.launch_seconds + _tile(q).seconds)

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        c, tile = counted_product(q), _tile(q)
        (batch, m, n), (rows, columns) = c.space.counts, tile.sizes
        grid = (-(-n // columns) * SIDE, -(-m // rows) * SIDE, batch)
        entry, jit = "matmul_gpu_vectors", tile.jit(_jit(q, c))
        return Plan((Launch(f"matmul/{entry}.cl", entry, jit, grid, (SIDE, SIDE, 1), _arguments(c)),))


def _tile(q: Query[MatMul]) -> LocalTile:
    return best_tile(q.device, product_sizes(q))


def _jit(q: Query[MatMul], c: CountedProduct) -> Jit:
    return vector_jit(q.outputs[0].dtype, len(c.space.dims)).define(B_BY_ROW=c.product.b.pitches[-1] == 1)


def _arguments(c: CountedProduct) -> tuple[Argument, ...]:
    return ("in0", "in1", c.bias, "out0", c.table, *c.posts)


def vector_limits(q: Query[MatMul]) -> str | None:
    """Say why the rows of the matrices do not lie in whole vectors, or return ``None``."""
    p = matrix_product(q)
    if p.k % LANES or p.dims[-1] % LANES:
        return f"requires multiples of {LANES} columns and terms"
    a, b, y = p.a, p.b, p.y
    by_row = b.pitches[-1] == 1
    rows = (*y.pitches[:-1], *a.pitches[:-1], *b.pitches[:-2], p.b_pitch if by_row else b.pitches[-1])
    starts = (y.origin, a.origin, b.origin, *rows)
    behind = p.a_pitch == 1 and y.pitches[-1] == 1 and (by_row or p.b_pitch == 1)
    return None if behind and not any(i % LANES for i in starts) else "requires rows of whole vectors"


@implements(MatMul, name="matmul.gpu_direct", serves=_PLAIN, tags={ORDERED_F32})
class MatMulGpuDirect(General[MatMul]):
    """Four columns of four rows a work-item, without local memory."""

    @classmethod
    def further_limits(cls, q: Query[MatMul]) -> str | None:
        return direct_refusal(q.device) or vector_limits(q)

    @classmethod
    def cost(cls, q: Query[MatMul]) -> float:
        return roofline(q, 0.15, 0.6)

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        c = counted_product(q)
        batch, m, n = c.space.counts
        count = batch * -(-m // DIRECT) * (n // LANES)
        return Plan((launch("matmul/matmul_gpu_direct", _jit(q, c), count, *_arguments(c)),))
