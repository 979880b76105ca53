"""Interpolation."""

from dataclasses import replace

import numpy as np
import onnx.reference
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.topology import Topology
from clgraph.implementations.cpu.resize_elements import ResizeElements
from clgraph.implementations.cpu.resize_nearest import ResizeNearest
from clgraph.implementations.cpu.resize_rows import ResizeRows
from clgraph.ops.resize import Resize
from clgraph.selector.query import DeviceInfo
from tests.support.check_op import check_op
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs, reference_outputs
from tests.support.run_tiles import pose

COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
SCALES = np.array([1, 1, 2.5, 1.5], np.float32)
DOWN = np.array([1, 1, 0.6, 0.7], np.float32)


@pytest.fixture
def x(rng):
    return rng.standard_normal((1, 2, 5, 6)).astype(np.float32)


@pytest.mark.parametrize("scales", [SCALES, DOWN])
@pytest.mark.parametrize("opset", [11, 13, 19])
@pytest.mark.parametrize("rule", [*COORDINATES, "tf_half_pixel_for_nn"])
@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_agrees_with_onnxruntime(nearest, rule, opset, scales, x):
    roi = None if opset >= 13 else np.array([], np.float32)
    inputs, attributes = [x, roi, scales], {"nearest_mode": nearest, "coordinate_transformation_mode": rule}
    agree("Resize", inputs, opset=opset, constant=(1, 2), **attributes)


@pytest.mark.parametrize("scales", [SCALES, DOWN])
@pytest.mark.parametrize("rule", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_interpolation_agrees_with_onnxruntime(mode, rule, scales, x):
    attributes = {"mode": mode, "coordinate_transformation_mode": rule}
    agree("Resize", [x, None, scales], opset=13, constant=(1, 2), **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_what_lies_outside_of_the_image_takes_a_value_as_onnxruntime_has_it(mode, x):
    roi = np.array([0, 0, -0.3, 0.1, 1, 1, 0.8, 1.4], np.float32)
    more = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": mode}
    for value in (0.0, 7.5):
        inputs = [x, roi, None, np.array([1, 2, 7, 9], np.int64)]
        program = agree(
            "Resize",
            inputs,
            opset=13,
            constant=(1, 3),
            extrapolation_value=value,
            nearest_mode="floor",
            **more,
        )
        assert [n.primitive.kind for n in program] == ["resize", *["where"] * bool(value)]


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize(("rule", "scale"), [("half_pixel", 1.3), ("asymmetric", 5.2), ("asymmetric", 2.000001)])
def test_places_next_to_the_middle_of_two_elements_agree_with_onnxruntime(nearest, rule, scale):
    # Output 19 of scale 1.3 is one float behind the middle, as is output 39 of 5.2; 2.000001 is one before it.
    x, scales = np.arange(77, dtype=np.float32).reshape(1, 77), np.float32([1, scale])
    more = {"mode": "nearest", "nearest_mode": nearest, "coordinate_transformation_mode": rule}
    agree("Resize", [x, None, scales], opset=18, constant=[2], **more)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil"])
def test_places_next_to_the_middle_are_alike_on_the_device(nearest, dtype, device):
    x = np.resize(np.arange(77), (1, 16, 2, 77)).astype(dtype)
    more = {"mode": "nearest", "nearest_mode": nearest, "coordinate_transformation_mode": "asymmetric"}
    for scale in (5.2, 2.000001):
        model, feeds = one_node("Resize", [x, None, np.float32([1, 1, 1, scale])], opset=18, constant=[2], **more)
        (found,) = clgraph.compile(model, device=device).run(feeds).values()
        np.testing.assert_array_equal(found, onnxruntime_outputs(model, feeds)[0])


def test_half_pixels_of_tensorflows_nearest_neighbours_agree_with_onnxruntime(x):
    for scales in (SCALES, DOWN):
        more = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}
        agree("Resize", [x, np.zeros(0, np.float32), scales], opset=11, constant=(1, 2), **more)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_integers_that_cubic_weights_make_stay_within_their_type(dtype):
    """ONNX Runtime refuses them but where its quantiser has left a Resize between QLinearConv."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    steps = np.repeat(np.array([low, low, high, high], dtype), 3).reshape(1, 1, 1, 12)
    resize = Resize("cubic", shape=(1, 1, 1, 24), scales=(1.0, 1.0, 1.0, 2.0))
    (got,), (floats,) = resize.reference(steps), resize.reference(steps.astype(np.float32))
    assert floats.min() < low - 1
    assert floats.max() > high + 1
    np.testing.assert_array_equal(got, np.clip(np.trunc(floats), low, high))


@pytest.mark.opencl
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_integers_are_mixed_as_the_reference_does(dtype, mode, rng):
    ends = np.iinfo(dtype)
    x = np.where(rng.random((1, 2, 9, 8)) < 0.5, ends.min, ends.max).astype(dtype)
    resize = Resize(mode, shape=(1, 2, 18, 16), scales=(1.0, 1.0, 2.0, 2.0))
    topology = Topology()
    topology.input("x", x.shape, DType.of(x.dtype))
    topology.output("y", topology.add("y", resize, "x"))
    # Weights of halves are multiples of 2^-7, so that every product and sum is exact.
    np.testing.assert_array_equal(clgraph.compile(topology).run(x=x)["y"], resize.reference(x)[0])


def test_cubic_taps_outside_may_be_excluded(x):
    more = {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}
    agree("Resize", [x, None, SCALES], opset=13, constant=(1, 2), **more)


@pytest.mark.parametrize("opset", [11, 13, 18, 19])
def test_sizes_agree_with_onnxruntime(opset, x):
    roi = None if opset >= 13 else np.array([], np.float32)
    scales = None if opset >= 13 else np.array([], np.float32)
    inputs = [x, roi, scales, np.array([1, 2, 7, 9], np.int64)]
    agree("Resize", inputs, opset=opset, constant=(1, 2, 3), mode="linear")


def test_axes_and_policy_agree_with_onnxruntime(x):
    sizes = np.array([11, 9], np.int64)
    for policy in ("stretch", "not_larger", "not_smaller"):
        more = {"axes": [2, 3], "keep_aspect_ratio_policy": policy, "mode": "linear"}
        agree("Resize", [x, None, None, sizes], opset=18, constant=(3,), **more)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_old_resize_and_upsample_agree_with_onnxruntime(mode, x):
    scales = np.array([1, 1, 2, 3], np.float32)
    agree("Resize", [x, scales], opset=10, constant=(1,), mode=mode)
    agree("Upsample", [x, scales], opset=9, constant=(1,), mode=mode)
    agree("Upsample", [x], opset=7, scales=[1.0, 1.0, 2.0, 3.0], mode=mode)


@pytest.mark.parametrize("scales", [(1, 1, 0.6, 0.3), (1, 1, 2, 2.5), (1, 1, 0.6, 2.5), (1, 1, 1, 0.7)])
def test_the_nearest_of_operator_set_10_lies_behind_where_the_result_is_smaller(scales, x):
    agree("Resize", [x, np.array(scales, np.float32)], opset=10, constant=(1,))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias_averages_over_all_pixels_of_a_smaller_result(mode, x):
    """ONNX Runtime rounds its weights in another way; ONNX's own reference is the oracle."""
    model, feeds = one_node("Resize", [x, None, DOWN], opset=18, constant=(2,), mode=mode, antialias=1)
    (got,) = reference_outputs(load_onnx(model).build(), feeds)
    (want,) = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [(1, 2, 3, 3), (1, 2, 8, 9), (1, 2, 5, 2), (1, 2, 5, 6)])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_antialiased_integers_are_rounded_behind_each_axis(dtype, mode, size, rng):
    """What is close to a half may be rounded the other way: sums of cubic weights, and of bytes', of 22 bits there."""
    low = 100 if dtype is np.uint8 else -25  # far enough from 0 and 255 for cubic weights
    x, wanted = rng.integers(low, low + 50, (1, 2, 5, 6)).astype(np.int32), np.array(size, np.int64)
    more = {"opset": 19, "constant": (3,), "mode": mode, "antialias": 1}
    model, feeds = one_node("Resize", [x.astype(dtype), None, None, wanted], **more)
    (got,) = reference_outputs(load_onnx(model).build(), feeds)
    (want,) = onnxruntime_outputs(model, feeds)
    (exact,) = onnxruntime_outputs(*one_node("Resize", [x, None, None, wanted], **more))
    assert np.abs(got.astype(int) - want).max() <= 1
    if mode == "linear":
        np.testing.assert_array_equal(got, exact)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("end", ["min", "max"])
def test_antialiased_integers_do_not_wrap_around(dtype, end):
    x = np.full((1, 1, 4, 4), getattr(np.iinfo(dtype), end), dtype)
    model, feeds = one_node("Resize", [x, None, DOWN], opset=19, constant=(2,), mode="linear", antialias=1)
    (got,) = reference_outputs(load_onnx(model).build(), feeds)
    # Weights of at most four elements, their products and sums in float32: 3 * 4 roundings an axis, and one of the end.
    np.testing.assert_allclose(got.astype(np.float64), float(x[0, 0, 0, 0]), rtol=(2 * 12 + 1) * 2.0**-24)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.F64])
@pytest.mark.parametrize("size", [(1, 2, 11, 9), (1, 2, 3, 4), (1, 2, 10, 12)])
@pytest.mark.parametrize("rule", COORDINATES)
def test_every_implementation_is_within_its_bound(rule, size, dtype, engine):
    shape = (1, 2, 5, 6)
    scales = tuple(n / d for n, d in zip(size, shape, strict=True))
    check_op(engine, Resize("nearest", rule, "floor", shape=size, scales=scales), shape, dtype=dtype)
    scale = lambda x: np.abs(x).max()  # noqa: E731
    # A term: two weights rounded, their product and the term: 4 units; sums of 4 and 16 terms. The weights of a cubic
    # add up to at most 1.5 in size along an axis.
    check_op(engine, Resize("linear", rule, shape=size, scales=scales), shape, ulps=4 + 4, scale=scale, dtype=dtype)
    cubic = Resize("cubic", rule, shape=size, scales=scales)
    check_op(engine, cubic, shape, ulps=1.5**2 * (4 + 16), scale=scale, dtype=dtype)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize(
    ("shape", "size", "antialias"),
    [
        ((2, 21, 37), (2, 40, 18), True),
        ((35, 20), (35, 33), False),
        ((2, 5, 3, 7), (2, 18, 3, 7), False),
        ((2, 5, 7, 3), (2, 18, 11, 3), False),
        ((1, 9, 14, 21), (1, 5, 6, 21), True),
    ],
)
def test_more_rows_and_columns_than_a_vector_has_are_within_the_bound_too(shape, size, antialias, dtype, engine):
    scales = tuple(n / d for n, d in zip(size, shape, strict=True))
    cubic = Resize("cubic", shape=size, scales=scales, antialias=antialias)
    if engine.device.info.kind == "cpu":
        q = pose(engine.device.info, ResizeRows, cubic, [Layout(dtype, shape)], arity=1)
        assert ResizeRows.refusal(q) is None
    # As above, with up to 10 taps of a column that becomes narrower.
    check_op(engine, cubic, shape, ulps=1.5**2 * (4 + 4 * 10), scale=lambda x: np.abs(x).max(), dtype=dtype)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.I8, DType.I64, DType.F32])
def test_the_nearest_by_whole_factors_repeats_elements_of_any_type(dtype, engine):
    shape, size = (2, 3, 5, 7), (2, 3, 10, 21)
    nearest = Resize("nearest", "asymmetric", "floor", shape=size, scales=(1.0, 1.0, 2.0, 3.0))
    found = check_op(engine, nearest, shape, dtype=dtype)
    assert ({"resize.elements", "resize.nearest"} <= {*found}) == (engine.device.info.kind == "cpu")
    q = pose(DeviceInfo(), ResizeElements, replace(nearest, nearest="ceil"), [Layout(dtype, shape)], arity=1)
    assert "as many times" in str(ResizeElements.refusal(q))


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        (DType.F32, (2, 3, 3, 41), (2, 3, 9, 82)),
        (DType.F16, (2, 5, 40), (2, 5, 120)),
        (DType.U8, (3, 2, 37), (3, 2, 148)),
        (DType.F64, (1, 2, 6, 23), (1, 2, 4, 46)),
        (DType.I8, (2, 7, 6, 3), (2, 10, 11, 3)),
        (DType.F32, (1, 4, 5, 11), (1, 9, 3, 11)),
        (DType.I16, (1, 4, 5, 4), (1, 4, 10, 4)),
        (DType.BOOL, (9, 2), (4, 2)),
    ],
    ids=str,
)
def test_the_nearest_of_any_type_are_elements_of_the_input(dtype, shape, size, engine):
    """Rows of two, three and four of each, others; of channels behind them, as one element, a few or a run."""
    scales = tuple(n / d for n, d in zip(size, shape, strict=True))
    for rule, nearest in (("asymmetric", "floor"), ("half_pixel", "round_prefer_ceil"), ("align_corners", "ceil")):
        p = Resize("nearest", rule, nearest, shape=size, scales=scales)
        odd = lambda rng, of: rng.choice([np.nan, -np.inf, -0.0, 1.0], of)  # noqa: E731
        draw = {0: odd} if dtype.floating else None
        found = check_op(engine, p, shape, dtype=dtype, draw=draw, families=("normal",))
        if engine.device.info.kind == "cpu":
            assert found["resize.nearest"] == 0


def test_the_nearest_along_axes_apart_are_left_to_others():
    apart = Resize("nearest", shape=(4, 3, 4), scales=(2.0, 1.0, 2.0))
    q = pose(DeviceInfo(), ResizeNearest, apart, [Layout(DType.U8, (2, 3, 2))], arity=1)
    assert "two neighbours" in str(ResizeNearest.refusal(q))


@pytest.mark.opencl
@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("size", [(2, 13, 45, 3), (2, 20, 45, 3), (2, 33, 30, 3), (2, 20, 30, 5)])
def test_tensorflow_nearest_pixels_of_channels_last_are_rows_of_a_tile(size, nearest, engine):
    shape = (2, 20, 30, 3)
    scales = tuple(n / d for n, d in zip(size, shape, strict=True))
    p = Resize("nearest", "tf_half_pixel_for_nn", nearest, shape=size, scales=scales)
    odd = lambda rng, of: rng.choice([np.nan, -np.inf, -0.0, 1.0], of)  # noqa: E731
    found = check_op(engine, p, shape, draw={0: odd}, families=("normal",))
    if engine.device.info.kind == "cpu":
        assert found["resize.nearest"] == 0
