"""Kernels for GPUs in which a group of work-items makes a row, on a device that is treated as one."""

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.network.node_steps import launch_text
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.reduce import Reduce
from clgraph.ops.softmax import Softmax
from clgraph.runtime.binaries import options_for
from clgraph.selector.choose import choose
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.query import DeviceInfo, Query
from clgraph.selector.sources import kernel_text
from tests.ops.test_reduce import BOUNDS
from tests.support.check_op import check_op, run_raw
from tests.support.combinations import in_both_types

# A row within a group, one that its registers hold, ones beyond them by elements and in vectors, several axes in a row.
ROWS = [((2, 3, 65), (2,)), ((3, 40, 33), (1, 2)), ((2, 2501), (1,)), ((2, 4808), (1,)), ((4, 5, 4, 8), (2, 3))]


@pytest.mark.opencl
@in_both_types("shape,axes", ROWS)
def test_softmax_is_within_its_bound(dtype, shape, axes, gpu_engine):
    k = int(np.prod([shape[a] for a in axes]))
    plain, logarithm = Softmax(axes), Softmax(axes, log=True)
    # As of any order of the sum; see test_softmax.
    scale = lambda x: plain.reference(x)[0] * (1 + np.abs(x - x.max(axes, keepdims=True)))  # noqa: E731
    found = check_op(gpu_engine, plain, shape, ulps=k + 18, scale=scale, dtype=dtype)
    assert "softmax.gpu_rows" in found
    size = lambda x: 1 + np.abs(logarithm.reference(x)[0])  # noqa: E731
    check_op(gpu_engine, logarithm, shape, ulps=k + 15, scale=size, dtype=dtype)


@pytest.mark.opencl
@in_both_types(
    "primitive,shapes",
    [
        (LayerNormalization(2, 2.0**-10), [(2, 3, 65), (65,), (65,)]),
        (LayerNormalization(1, 2.0**-10), [(2, 3, 12), (3, 12)]),
        (LayerNormalization(1, 2.0**-10), [(2, 2501), (2501,), (2501,)]),
        (LayerNormalization(1, 2.0**-10), [(2, 4808), (4808,), (4808,)]),
        (LayerNormalization(2, 2.0**-10, channels=True), [(2, 19, 4, 9), (19,), (19,)]),
    ],
)
def test_layer_normalization_is_within_its_bound(dtype, primitive, shapes, gpu_engine):
    axes = tuple(range(primitive.axis, len(shapes[0])))
    k = int(np.prod([shapes[0][a] for a in axes]))

    def scale(x, factor, bias=None):
        factor = np.abs(factor.reshape(primitive.wide(factor.shape, x.ndim)))
        shift = 0 if bias is None else np.abs(bias.reshape(primitive.wide(bias.shape, x.ndim)))
        deviation = np.sqrt(x.var(axes, keepdims=True) + primitive.epsilon)
        y = np.abs(x - x.mean(axes, keepdims=True)) / deviation
        return (np.abs(x).mean(axes, keepdims=True) / deviation * (1 + 2 * y) + y) * factor + shift

    # As of any order of the sums; see test_layer_normalization.
    found = check_op(gpu_engine, primitive, *shapes, ulps=k + 5 + 20, scale=scale, dtype=dtype)
    assert "layer_normalization.gpu_rows" in found


@pytest.mark.opencl
@pytest.mark.parametrize(("shape", "axes"), ROWS[:2])
@pytest.mark.parametrize("function", BOUNDS)
def test_every_reduction_is_within_its_bound(function, shape, axes, gpu_engine):
    ulps, scale = BOUNDS[function]
    count = int(np.prod([shape[a] for a in axes]))
    near_one = lambda rng, shape: rng.uniform(0.99, 1.01, shape)  # noqa: E731
    for keepdims in (True, False):
        primitive = Reduce(function, axes, keepdims)
        size = None if scale is None else lambda x, p=primitive: scale(lambda v: p.reference(v)[0], x)
        draw = {0: near_one} if function in ("prod", "log_sum") else {}
        found = check_op(gpu_engine, primitive, shape, ulps=ulps(count), scale=size, draw=draw)
        assert "reduce.gpu_rows" in found


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, pytest.param(DType.F16, marks=pytest.mark.slow)])
def test_fused_operations_are_applied_to_each_row(dtype, gpu_engine):
    fused = [(Eltwise("mul"), [(2, 3, 72)], 0)]
    softmax = Softmax((2,))
    scale = lambda x, m: np.abs(m) * softmax.reference(x)[0] * (1 + x.max(2, keepdims=True) - x)  # noqa: E731
    check_op(gpu_engine, softmax, (2, 3, 72), ulps=72 + 18 + 1, scale=scale, fused=fused, dtype=dtype)
    mean = Reduce("mean", (2,), keepdims=False)
    fused = [(Eltwise("add"), [(2, 3)], 0)]
    scale = lambda x, b: mean.reference(np.abs(x))[0] + np.abs(b)  # noqa: E731
    check_op(gpu_engine, mean, (2, 3, 72), ulps=72 + 5 + 1, scale=scale, fused=fused, dtype=dtype)


@pytest.mark.parametrize(
    ("dtype", "shape", "pitch", "lanes"),
    [
        (DType.F16, (9, 96), 96, 8),
        (DType.F16, (9, 96), 100, 4),
        (DType.F32, (9, 96), 100, 4),
        (DType.F32, (9, 98), 98, 1),
    ],
)
def test_rows_come_in_16_bytes_where_they_are_whole_ones_of_them(dtype, shape, pitch, lanes):
    x, y = Layout(dtype, shape, pitches=(pitch, 1)), Layout(dtype, shape)
    for name, primitive, result in (
        ("softmax", Softmax((1,)), y),
        ("reduce", Reduce("sum", (1,)), Layout(dtype, (9, 1))),
    ):
        q = Query(primitive, (x,), (result,), DeviceInfo("gpu:0", "gpu", simd=1), 1)
        (step,) = IMPLEMENTATIONS[f"{name}.gpu_rows"].plan(q).steps
        assert dict(step.jit.macros).get("LANES", "1") == str(lanes)


@pytest.mark.opencl
@pytest.mark.parametrize("name", ["reduce.gpu_rows", "reduce.gpu_subgroups"])
@pytest.mark.parametrize("function", ["max", "min"])
def test_extrema_that_meet_nan_are_nan(function, name, gpu_engine):
    if missing := IMPLEMENTATIONS[name].serves.features - gpu_engine.info.features:
        pytest.skip(f"the device has no {', '.join(missing)}")
    with_nan = lambda rng, shape: np.where(rng.random(shape) < 0.01, np.nan, rng.standard_normal(shape))  # noqa: E731
    reduced = Reduce(function, (1,))
    drawn = with_nan(np.random.default_rng(0), (9, 72)).astype(np.float32)
    wanted = reduced.reference(drawn)[0]
    x, y = Layout(DType.F32, (9, 72)), Layout(DType.F32, (9, 1))
    q = Query(reduced, (x,), (y,), gpu_engine.info, 1)
    (found,) = run_raw(gpu_engine, IMPLEMENTATIONS[name], q, [drawn])
    np.testing.assert_array_equal(found.reshape(9, 1), wanted)
    assert np.isnan(found).any()
    assert not np.isnan(found).all()


@pytest.mark.opencl
def test_sub_groups_are_used_only_where_the_device_has_them(gpu_engine):
    there = "subgroups" in gpu_engine.info.features
    x = Layout(DType.F32, (4, 100))
    for name, primitive in (("softmax", Softmax((1,))), ("reduce", Reduce("sum", (1,)))):
        q = Query(primitive, (x,), primitive.infer([x]), gpu_engine.info, 1)
        reason = IMPLEMENTATIONS[f"{name}.gpu_subgroups"].refusal(q)
        assert reason is None if there else "needs subgroups" in str(reason)
        assert choose(q).name == (f"{name}.gpu_subgroups" if there else f"{name}.gpu_rows")


@pytest.mark.opencl
@pytest.mark.parametrize("name", ["softmax", "layer_normalization", "reduce"])
def test_sub_groups_of_khronos_compute_the_same_without_those_of_intel(name, gpu_engine):
    features = gpu_engine.info.features - {"intel_subgroups"}
    if "subgroups" not in features:
        pytest.skip("the device has no subgroups")
    device = replace(gpu_engine.info, features=features)
    shapes = [(9, 700), (700,), (700,)] if name == "layer_normalization" else [(9, 700)]
    p = {"softmax": Softmax((1,)), "layer_normalization": LayerNormalization(1, 1e-5), "reduce": Reduce("mean", (1,))}
    layouts = tuple(Layout(DType.F32, shape) for shape in shapes)
    q = Query(p[name], layouts, p[name].infer(layouts), device, len(layouts))
    assert choose(q).name == f"{name}.gpu_subgroups"
    drawn = [np.random.default_rng(i).standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)]
    (found,) = run_raw(gpu_engine, choose(q).implementation, q, drawn)
    # Sums of 700 terms in any order, as in the tests above; results are below 8 and sums of absolute values below 700.
    want = p[name].reference(*(x.astype(np.float64) for x in drawn))[0]
    np.testing.assert_allclose(found.reshape(want.shape), want, rtol=0, atol=(700 + 25) * 2.0**-24 * 8)


def test_a_kernel_that_needs_a_newer_opencl_c_is_built_for_it():
    features = frozenset({"subgroups", "opencl_c_30"})
    x = Layout(DType.F32, (4, 100))
    for known, standard in ((features, "CL3.0"), (features - {"opencl_c_30"}, "CL2.0")):
        q = Query(Softmax((1,)), (x,), (x,), DeviceInfo("gpu:0", "gpu", simd=1, features=known), 1)
        (step,) = choose(q).plan().steps
        assert f"-cl-std={standard}" in options_for(known, False, launch_text(step))
        assert "-cl-std=CL1.2" in options_for(known, False, kernel_text(step.source))
