"""Matrix products for GPUs: thin work-items, tiles in local memory."""

from __future__ import annotations

from math import prod

from clgraph.ops.gpu_tiles import DIRECT, EMULATED_LOCAL, EMULATED_SHARE, Tile, best_tile, direct_refusal, tile_refusal
from clgraph.ops.gpu_vectors import LANES, vector_jit
from clgraph.ops.matmul import MatMul, problem
from clgraph.selector.general import FLOATS, General, float_jit, launch, post_arguments, space, table
from clgraph.selector.implementation import Serves, implements, roofline
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import DeviceInfo, Query

TILE = 64
"""Results of a group along each axis."""
SIDE = 16
"""Work-items of a group along each axis."""
LOCAL_BYTES = 2 * 16 * (TILE + 1) * 4


def refusal(device: DeviceInfo) -> str | None:
    """Say why *device* cannot run groups with tiles in local memory."""
    if device.max_work_group < SIDE * SIDE:
        return f"wants groups of {SIDE * SIDE} work-items, the device has {device.max_work_group}"
    return "wants 8 KiB of local memory" if device.local_bytes < LOCAL_BYTES else None


def efficiency(device: DeviceInfo, rows: int, columns: int, count: int) -> float:
    """Return the share of the device's arithmetic that *count* products of *rows* x *columns* results reach.

    On a GPU a quarter where all tiles are full and every compute unit has one. A CPU runs the work-items of a group as
    loops over local memory.
    """
    tiles = -(-rows // TILE) * -(-columns // TILE) * count
    full = rows * columns * count / (tiles * TILE * TILE)
    busy = min(1.0, tiles / max(device.compute_units, 1))
    share = 0.25 if EMULATED_LOCAL not in device.features else 0.25 * EMULATED_SHARE
    return (share * busy if device.kind == "gpu" else 0.015) * full


@implements(MatMul, name="matmul.gpu_tiled", serves=Serves(dtypes=FLOATS, fuses=FUSABLE))
class MatMulGpuTiled(General[MatMul]):
    """Groups of 16 x 16 work-items make tiles of 64 x 64, 16 sums each."""

    @classmethod
    def further_limits(cls, q: Query[MatMul]) -> str | None:
        return refusal(q.device)

    @classmethod
    def cost(cls, q: Query[MatMul]) -> float:
        batch, m, _, n = q.primitive.sizes(q.own[0].shape, q.own[1].shape)
        return roofline(q, max(efficiency(q.device, m, n, prod(batch)), 1e-6))

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        p = problem(q)
        last = len(p.dims) - 1
        groups = [range(last - 1), [last - 1], [last]]
        s = space(p.dims, [p.y, p.a, p.b, p.bias, *p.posts], groups)
        batch, m, n = s.counts
        numbers = table(s.dims, *s.views[:4], [p.k, p.a_pitch, p.b_pitch, int(q.arity > 2)])
        posts = post_arguments(q, s.views[4:], len(s.dims))
        grid = (-(-n // TILE) * SIDE, -(-m // TILE) * SIDE, batch)
        bias = "in2" if q.arity > 2 else "null"
        jit = float_jit(q.outputs[0].dtype, len(s.dims))
        arguments = ("in0", "in1", bias, "out0", numbers, *posts)
        step = Launch("matmul/matmul_gpu_tiled.cl", "matmul_gpu_tiled", jit, grid, (SIDE, SIDE, 1), arguments)
        return Plan((step,))


@implements(MatMul, name="matmul.gpu_vectors", serves=Serves(dtypes=FLOATS, kinds=frozenset({"gpu"}), fuses=FUSABLE))
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


def _tile(q: Query[MatMul]) -> Tile:
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


@implements(MatMul, name="matmul.gpu_direct", serves=Serves(dtypes=FLOATS, kinds=frozenset({"gpu"}), fuses=FUSABLE))
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
