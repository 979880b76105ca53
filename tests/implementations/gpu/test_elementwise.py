"""Elementwise kernels for GPUs, on a device that is treated as one."""

import math

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.format import channels_last, feature_blocked
from clgraph.core.layout import Layout
from clgraph.implementations.gpu.vectors import lanes_of_channels, lies_in_vectors, vector_space
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op, run_raw
from tests.support.combinations import in_both_types


@pytest.mark.opencl
@in_both_types("shape", [(2, 8, 5, 7), (1, 12, 1, 1), (3, 5, 24), (7, 4), (1, 4, 3, 5), (2, 3, 4, 2, 8)])
def test_activations_are_exact_in_every_format(dtype, shape, gpu_engine):
    for primitive, ulps in ((Activation("relu"), 0), (Activation("linear", 3.0, -1.5), 1)):
        scale = lambda x: 3 * np.abs(x) + 1.5  # noqa: E731
        found = check_op(gpu_engine, primitive, shape, ulps=ulps, scale=scale, dtype=dtype)
        assert "activation.gpu_vectors" in found


@pytest.mark.opencl
@in_both_types(
    "other", [(2, 8, 5, 12), (8, 5, 12), (8, 1, 1), (1, 8, 1, 12), (12,), (), (2, 1, 5, 12), (1, 1, 1, 1), (5, 1)]
)
@pytest.mark.parametrize("swapped", [False, True])
def test_every_broadcast_is_read_in_every_format(dtype, other, swapped, gpu_engine):
    shapes = ((2, 8, 5, 12), other)
    shapes = shapes[::-1] if swapped else shapes
    # One rounding.
    scale = lambda a, b: np.abs(a) + np.abs(b)  # noqa: E731
    found = check_op(gpu_engine, Eltwise("sub"), *shapes, ulps=1, scale=scale, dtype=dtype)
    assert "eltwise.gpu_vectors" in found


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_fused_operations_read_vectors_too(dtype, gpu_engine):
    shape = (2, 8, 3, 4)
    fused = [
        (Eltwise("mul"), [(8, 1, 1)], 0),
        (Activation("relu"), [], 0),
        (Eltwise("sub"), [shape], 1),
        (Eltwise("add"), [(4,)], 0),
    ]
    # The sum rounds, then the product, the difference and the last sum: four times, of at most this.
    scale = lambda a, b, m, s, t: (np.abs(a) + np.abs(b)) * np.abs(m) + np.abs(s) + np.abs(t)  # noqa: E731
    found = check_op(gpu_engine, Eltwise("add"), shape, shape, ulps=4, scale=scale, fused=fused, dtype=dtype)
    assert "eltwise.gpu_vectors" in found


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (Layout(DType.F32, (1, 6, 4, 4), channels_last(4)), "multiple of 4 channels, not 6"),
        (Layout(DType.F32, (1, 8, 4, 4), feature_blocked(4, 16)), "those of channels in vectors"),
        (Layout(DType.F32, (1, 8, 4, 4), channels_last(4), pitches=(160, 1, 40, 10)), "multiples of 4 elements"),
        (Layout(DType.F32, (1, 8, 4, 5)), "multiples of 4 elements"),
        (Layout(DType.F32, (1, 8, 4, 4), halo=((0, 0), (0, 0), (0, 0), (1, 3))), "multiples of 4 elements"),
        (Layout(DType.F32, (1, 8, 4, 4), feature_blocked(4, 4)), None),
        (Layout(DType.F32, (1, 8, 4, 5), channels_last(4)), None),
    ],
)
def test_what_has_no_whole_vectors_is_refused(layout, said):
    reason = lies_in_vectors(layout)
    assert reason is None if said is None else said in reason


@pytest.mark.opencl
@pytest.mark.parametrize("shape", [(64, 64), (61, 67)])
@pytest.mark.parametrize("function", ["sin", "cos"])
def test_large_angles_are_reduced_as_exactly_as_small_ones(function, shape):
    # Each size of float from 2^13 on, the floats nearest to multiples of pi / 2, and what has no sine.
    random = np.random.default_rng(3)
    x = np.ldexp(random.uniform(1, 2, np.prod(shape)), random.integers(13, 128, np.prod(shape)))
    x[:1000] = np.round(np.ldexp(random.uniform(1, 2, 1000), random.integers(13, 40, 1000))) * (np.pi / 2)
    x = (x * random.choice([-1, 1], x.shape)).astype(np.float32)
    x[-4:] = np.inf, -np.inf, np.nan, 8193.0
    net = clgraph.Topology()
    net.output(net.add("y", Activation(function), net.input("x", shape)))
    model = clgraph.compile(net, "pocl", config={"device_class": "gpu"})
    found = model.run({"x": x.reshape(shape)})["y"].ravel()
    assert np.isnan(found[-4:-1]).all()
    of_double = getattr(math, function)
    wanted = np.array([of_double(float(v)) if np.isfinite(v) else np.nan for v in x])
    error = np.abs(found.astype(np.float64) - wanted)[np.isfinite(x)]
    # The bound of post_apply.clh.
    assert (error <= 8 * 2.0**-24 * np.abs(wanted[np.isfinite(x)])).all()


@pytest.mark.parametrize(
    ("dtype", "shape", "form", "lanes"),
    [
        (DType.F16, (1, 16, 3, 5), channels_last(4), 8),
        (DType.F16, (1, 12, 3, 5), channels_last(4), 4),
        (DType.F16, (1, 16, 3, 5), feature_blocked(4, 4), 4),
        (DType.F32, (1, 16, 3, 5), channels_last(4), 4),
    ],
)
def test_a_vector_of_channels_is_16_bytes_where_the_channels_are_whole_ones(dtype, shape, form, lanes):
    assert lanes_of_channels(Layout(dtype, shape, form)) == lanes


@pytest.mark.parametrize(
    ("dtype", "pitches", "lanes"), [(DType.F16, (32, 1), 8), (DType.F16, (28, 1), 4), (DType.F32, (32, 1), 4)]
)
def test_rows_are_read_in_16_bytes_where_all_of_them_start_at_multiples(dtype, pitches, lanes):
    x = Layout(dtype, (3, 24), pitches=pitches)
    q = Query(Activation("relu"), (Layout(dtype, (3, 24)),), (x,), DeviceInfo(kind="gpu"), 1)
    assert vector_space(q, [0])[2] == lanes


@pytest.mark.opencl
def test_large_angles_of_halves_are_reduced_in_every_lane(gpu_engine, rng):
    x = rng.choice([1.0, 9000.0, -60000.0], (1, 16, 3, 5)) * rng.uniform(0.5, 1, (1, 16, 3, 5))
    x, layout = x.astype(np.float16), Layout(DType.F16, x.shape)
    q = Query(Activation("sin"), (layout,), (layout,), gpu_engine.info, 1)
    (found,) = run_raw(gpu_engine, IMPLEMENTATIONS["activation.gpu_vectors"], q, [x])
    wanted = np.sin(x.astype(np.float64)).ravel()
    # The bound of post_apply.clh, and storing the half.
    assert (np.abs(found - wanted) <= (8 * 2.0**-24 + 2.0**-11) * np.abs(wanted) + 2.0**-25).all()
