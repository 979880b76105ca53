"""Matrix products by groups of work-items with tiles in local memory."""

from __future__ import annotations

from math import prod

from clgraph.ops.matmul import MatMul, matrix_product
from clgraph.selector.general import FLOATS, General, float_jit, post_arguments, table
from clgraph.selector.implementation import Serves, implements, roofline
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import DeviceInfo, Query
from clgraph.selector.views import space

TILE = 64
"""Results of a group along each axis."""
SIDE = 16
"""Work-items of a group along each axis."""
EMULATED_LOCAL = "emulated_local"
"""The feature of devices whose local memory is ordinary memory."""
EMULATED_SHARE = 0.25
"""What is left there of the speed of tiles in local memory. An estimate."""
LOCAL_BYTES = 2 * 16 * (TILE + 1) * 4


def refusal(device: DeviceInfo) -> str | None:
    """Say why *device* cannot run groups with tiles in local memory."""
    if device.max_work_group < SIDE * SIDE:
        return f"requires groups of {SIDE * SIDE} work-items, the device has {device.max_work_group}"
    return "requires 8 KiB of local memory" if device.local_bytes < LOCAL_BYTES else None


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
        p = matrix_product(q)
        last = len(p.dims) - 1
        groups = [range(last - 1), [last - 1], [last]]
        s = space(p.dims, [p.y, p.a, p.b, p.bias, *p.posts], groups)
        batch, m, n = s.counts
        numbers = table(s.dims, *s.views[:4], [p.k, p.a_pitch, p.b_pitch, int(q.arity > 2)])
        posts = post_arguments(q, s.views[4:], len(s.dims))
        grid = (-(-n // TILE) * SIDE, -(-m // TILE) * SIDE, batch)
        bias = q.role(2)
        jit = float_jit(q.outputs[0].dtype, len(s.dims))
        arguments = ("in0", "in1", bias, "out0", numbers, *posts)
        step = Launch("matmul/matmul_gpu_tiled.cl", "matmul_gpu_tiled", jit, grid, (SIDE, SIDE, 1), arguments)
        return Plan((step,))
