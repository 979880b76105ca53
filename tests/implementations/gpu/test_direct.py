"""Kernels for GPUs whose local memory is ordinary memory (Mali, Adreno), on a device that is treated as one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.gpu.attention import AttentionGpuDirect
from clgraph.implementations.portable.matmul import EMULATED_LOCAL
from clgraph.ops.activation import Activation
from clgraph.ops.attention import Attention
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.selector.choose import choose
from clgraph.selector.query import DeviceInfo, Query
from tests.implementations.portable.test_convolution import CASES, _scale
from tests.ops.test_attention import matrices, natural_size
from tests.support.check_op import check_op
from tests.support.combinations import in_both_types

MALI = DeviceInfo("mali:0", "gpu", "ARM", compute_units=4, simd=1, max_work_group=256, flops=3e11)
EMULATED = replace(MALI, features=MALI.features | {EMULATED_LOCAL})


@pytest.fixture(scope="module")
def direct_engine(gpu_engine):
    device = gpu_engine.device
    features = device.info.features | {EMULATED_LOCAL}
    return type(gpu_engine)(replace(device, info=replace(device.info, features=features)))


@pytest.mark.opencl
@in_both_types("case", CASES)
def test_convolutions_are_within_the_bound_of_their_sum_in_both_formats(case, dtype, direct_engine):
    x, w, primitive = CASES[case]
    found = check_op(
        direct_engine,
        primitive,
        *(x, w, w[:1]),
        # An ordinary sum of n products and a bias is off by at most n + 1 units.
        ulps=int(np.prod(w[1:])) + 1,
        scale=_scale(primitive),
        constant=(1, 2),
        dtype=dtype,
        only=["convolution.gpu_direct"],
    )
    assert "convolution.gpu_direct" in found


@pytest.mark.opencl
@in_both_types(
    "primitive,shapes",
    [
        (MatMul(), [(7, 12), (12, 20), (20,)]),
        (MatMul(), [(2, 3, 9, 8), (3, 8, 36)]),
        (MatMul(transpose_b=True), [(2, 5, 16), (12, 16), (5, 12)]),
        (MatMul(transpose_b=True), [(2, 5, 16), (2, 24, 16)]),
    ],
)
def test_products_are_within_the_bound_of_their_sum(primitive, shapes, dtype, direct_engine):
    k = shapes[0][-1]
    scale = lambda a, b, *bias: primitive.reference(*map(np.abs, (a, b, *bias)))[0]  # noqa: E731
    found = check_op(
        direct_engine, primitive, *shapes, ulps=k + 1, scale=scale, dtype=dtype, only=["matmul.gpu_direct"]
    )
    assert "matmul.gpu_direct" in found


@pytest.mark.opencl
def test_fused_operations_are_applied(direct_engine):
    fused = [(Eltwise("add"), [(7, 20)], 1), (Activation("relu"), [], 0)]
    scale = lambda a, b, r: np.abs(a) @ np.abs(b) + np.abs(r)  # noqa: E731
    # A sum of 12 products and a residual; relu is exact.
    check_op(direct_engine, MatMul(), (7, 12), (12, 20), ulps=14, scale=scale, fused=fused, only=["matmul.gpu_direct"])


HEADS = {
    "bias": ((2, 3), (9, 33, 4, 20), (2, 1, 1, 33)),
    "one": ((2,), (5, 7, 8, 12), None),
    "wide": ((), (33, 50, 128, 100), (33, 50)),
    "a_bias_a_query": ((2,), (33, 40, 8, 12), (33, 1)),
}


def _attention_scale(primitive):
    # What other kernels are held to, and for each key another maximum: an exponential and two products, 11 units, in
    # the mixture and in the sum.
    def scale(*arrays):
        mixed = primitive.reference(*arrays[:2], np.abs(arrays[2]), *arrays[3:])[0]
        return natural_size(primitive, *arrays) + 22 * arrays[2].shape[-2] * mixed

    return scale


@pytest.mark.opencl
@pytest.mark.parametrize("by_key", [False, True])
@in_both_types("case", HEADS)
def test_attention_is_within_its_bound(case, by_key, dtype, direct_engine, rng):
    batch, sizes, bias = HEADS[case]
    shapes = [a.shape for a in matrices(rng, batch, *sizes, by_key, bias)]
    primitive, name = Attention(0.5, by_key), "attention.gpu_direct"
    scale = _attention_scale(primitive)
    assert name in check_op(direct_engine, primitive, *shapes, ulps=1, scale=scale, dtype=dtype, only=[name])


@pytest.mark.opencl
def test_keys_that_are_hidden_count_nothing_and_what_is_fused_is_applied(direct_engine):
    q, k, v = matrices(np.random.default_rng(3), (2,), 9, 70, 8, 12, True)
    hidden = lambda rng, shape: np.where(np.arange(70) < 40, -np.inf, 0.0) * np.ones(shape)  # noqa: E731
    fused = [(Activation("relu"), [], 0)]
    primitive, name = Attention(0.5, True), "attention.gpu_direct"
    check = {"ulps": 1, "scale": _kept, "draw": {3: hidden}, "fused": fused, "families": ("normal",), "only": [name]}
    check_op(direct_engine, primitive, q.shape, k.shape, v.shape, (2, 1, 70), **check)


def _kept(q, k, v, bias):
    primitive = Attention(0.5, True)
    return _attention_scale(primitive)(q, k[:, 40:], v[:, 40:])


def test_heads_of_other_sizes_are_refused():
    layouts = tuple(Layout(DType.F32, (2, 64, 30)) for _ in range(3))
    q = Query(Attention(1.0, True), layouts, (layouts[0],), EMULATED, 3)
    assert "heads of multiples of 4 up to 128, not 30 and 30" in str(AttentionGpuDirect.refusal(q))


SMALL = replace(MALI, max_work_group=128)


@pytest.mark.parametrize(
    ("info", "name"),
    [(MALI, "matmul.gpu_vectors"), (EMULATED, "matmul.gpu_direct"), (SMALL, "matmul.gpu_direct")],
)
def test_they_are_chosen_only_where_local_memory_is_emulated_or_too_small(info, name):
    a, b, y = (Layout(DType.F32, shape) for shape in ((256, 128), (128, 256), (256, 256)))
    assert choose(Query(MatMul(), (a, b), (y,), info, 2)).implementation.name == name
