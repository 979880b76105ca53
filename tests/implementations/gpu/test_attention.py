"""Attention for GPUs, on a device that is treated as one."""

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.gpu.attention import AttentionGpuTiled
from clgraph.ops.activation import Activation
from clgraph.ops.attention import Attention
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.query import DeviceInfo, Query
from tests.ops.test_attention import matrices, natural_size
from tests.support.check_op import check_op, run_raw
from tests.support.combinations import in_both_types

NAME = AttentionGpuTiled.name
# Ranks, depths and widths that make few kernel texts of many cases.
CASES = {
    "tails": ((2, 3), (5, 7, 52, 51), (2, 1, 1, 7)),
    "a_tile": ((2,), (32, 32, 16, 32), None),
    "many": ((), (70, 65, 12, 29), (65,)),
    "wide_heads": ((2,), (33, 50, 128, 100), (33, 50)),
    "a_bias_a_query": ((2,), (33, 40, 8, 20), (33, 1)),
    "heads": ((2, 3), (40, 40, 64, 64), (2, 1, 1, 40)),
}


def scale_of(primitive):
    """What other kernels are held to, and for each tile of keys a product with an exponential, 10 roundings, in the
    mixture and in the sum.
    """

    def scale(*arrays):
        tiles = -(-arrays[2].shape[-2] // 16)
        mixed = primitive.reference(*arrays[:2], np.abs(arrays[2]), *arrays[3:])[0]
        return natural_size(primitive, *arrays) + 20 * tiles * mixed

    return scale


@pytest.mark.opencl
@pytest.mark.parametrize("by_key", [False, True])
@in_both_types("case", CASES)
def test_tiles_are_within_their_bound(case, dtype, by_key, gpu_engine, rng):
    batch, sizes, bias = CASES[case]
    shapes = [a.shape for a in matrices(rng, batch, *sizes, by_key, bias)]
    primitive = Attention(0.5, by_key)
    check_op(gpu_engine, primitive, *shapes, ulps=1, scale=scale_of(primitive), dtype=dtype, only=[NAME])


@pytest.mark.opencl
def test_fused_operations_are_applied(gpu_engine, rng):
    batch, sizes, _ = CASES["a_tile"]
    shapes = [a.shape for a in matrices(rng, batch, *sizes, True, None)]
    primitive = Attention(0.5, True)
    y = (*batch, sizes[0], sizes[3])
    fused = [(Eltwise("add"), [y], 0), (Activation("relu"), [], 0)]
    scale = lambda *a: scale_of(primitive)(*a[:3]) + np.abs(a[3]) + np.abs(primitive.reference(*a[:3])[0])  # noqa: E731
    check_op(gpu_engine, primitive, *shapes, ulps=1, scale=scale, fused=fused, only=[NAME])


@pytest.mark.opencl
@pytest.mark.parametrize("hidden", [slice(0, 40), slice(30, 70)])
def test_keys_hidden_by_minus_infinity_count_nothing(hidden, gpu_engine):
    rng = np.random.default_rng(3)
    q, k, v = matrices(rng, (2,), 9, 70, 8, 20, True)
    bias = np.zeros((2, 1, 70), np.float32)
    bias[:, :, hidden] = -np.inf
    primitive = Attention(0.5, True)
    layouts = tuple(Layout.of(a) for a in (q, k, v, bias))
    query = Query(primitive, layouts, primitive.infer(layouts), gpu_engine.info, 4)
    (seen,) = run_raw(gpu_engine, AttentionGpuTiled, query, [q, k, v, bias])
    kept = np.setdiff1d(np.arange(70), np.arange(70)[hidden])
    wanted = primitive.reference(*(a.astype(np.float64) for a in (q, k[:, kept], v[:, kept])))[0]
    size = scale_of(primitive)(*(a.astype(np.float64) for a in (q, k[:, kept], v[:, kept])))
    assert (np.abs(seen.reshape(wanted.shape) - wanted) <= 2.0**-24 * size).all()


def test_heads_that_local_memory_has_no_room_for_are_refused():
    gpu = DeviceInfo("gpu:0", "gpu", local_bytes=32 << 10)

    def refusal(d, device=gpu):
        layouts = tuple(Layout(DType.F32, (2, 64, d)) for _ in range(3))
        q = Query(Attention(1.0, True), layouts, (layouts[0],), device, 3)
        return AttentionGpuTiled.refusal(q)

    assert refusal(64) is None
    assert "bytes of local memory" in str(refusal(128))
    assert refusal(128, replace(gpu, local_bytes=48 << 10)) is None
    assert "heads of up to 128" in str(refusal(160))
