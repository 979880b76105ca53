"""Matrix products for GPUs: thin work-items, tiles in local memory."""

from __future__ import annotations

from math import prod

from clgraph.implementations.gpu.local_tiles import (
    DIRECT,
    SIDE,
    LocalTile,
    best_tile,
    direct_refusal,
    tile_refusal,
)
from clgraph.implementations.gpu.vectors import LANES, vector_jit
from clgraph.ops.matmul import MatMul, problem
from clgraph.selector.general import FLOATS, General, launch, post_arguments, space, table
from clgraph.selector.implementation import ORDERED_F32, Serves, implements, roofline
from clgraph.selector.plan import Launch, Plan
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
        p, tile = problem(q), _tile(q)
        last = len(p.dims) - 1
        s = space(p.dims, [p.y, p.a, p.b, p.bias, *p.posts], [range(last - 1), [last - 1], [last]])
        batch, m, n = s.counts
        numbers = table(s.dims, *s.views[:4], [p.k, p.b_pitch, int(q.arity > 2)])
        rows, columns = tile.sizes
        grid = (-(-n // columns) * SIDE, -(-m // rows) * SIDE, batch)
        jit = tile.jit(vector_jit(q.outputs[0].dtype, len(s.dims))).define(B_BY_ROW=p.b.pitches[-1] == 1)
        posts = post_arguments(q, s.views[4:], len(s.dims))
        arguments = ("in0", "in1", "in2" if q.arity > 2 else "null", "out0", numbers, *posts)
        step = Launch("matmul/matmul_gpu_vectors.cl", "matmul_gpu_vectors", jit, grid, (SIDE, SIDE, 1), arguments)
        return Plan((step,))


def _tile(q: Query[MatMul]) -> LocalTile:
    batch, m, k, n = q.primitive.sizes(q.own[0].shape, q.own[1].shape)
    return best_tile(q.device, m, n, k, prod(batch))


def vector_limits(q: Query[MatMul]) -> str | None:
    """Say why the rows of the matrices do not lie in whole vectors, or return ``None``."""
    p = problem(q)
    if p.k % LANES or p.dims[-1] % LANES:
        return f"wants multiples of {LANES} columns and terms"
    a, b, y = p.a, p.b, p.y
    by_row = b.pitches[-1] == 1
    rows = (*y.pitches[:-1], *a.pitches[:-1], *b.pitches[:-2], p.b_pitch if by_row else b.pitches[-1])
    starts = (y.origin, a.origin, b.origin, *rows)
    behind = p.a_pitch == 1 and y.pitches[-1] == 1 and (by_row or p.b_pitch == 1)
    return None if behind and not any(i % LANES for i in starts) else "wants rows of whole vectors"


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
        p = problem(q)
        last = len(p.dims) - 1
        s = space(p.dims, [p.y, p.a, p.b, p.bias, *p.posts], [range(last - 1), [last - 1], [last]])
        batch, m, n = s.counts
        numbers = table(s.dims, *s.views[:4], [p.k, p.b_pitch, int(q.arity > 2)])
        jit = vector_jit(q.outputs[0].dtype, len(s.dims)).define(B_BY_ROW=p.b.pitches[-1] == 1)
        posts = post_arguments(q, s.views[4:], len(s.dims))
        arguments = ("in0", "in1", "in2" if q.arity > 2 else "null", "out0", numbers, *posts)
        return Plan((launch("matmul/matmul_gpu_direct", jit, batch * -(-m // DIRECT) * (n // LANES), *arguments),))
