"""Regions as images of one size: the references against ONNX Runtime, the kernels against the references."""

import tracemalloc

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.roi_align import MaxRoiPool, RoiAlign
from tests.support.check_op import check_op
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs

# Inside, over the edges, outside, no pixel large, the wrong way round.
REGIONS = np.array(
    [[0.5, 1, 6.25, 5.5], [-2, -1.5, 3, 30], [20, 20, 30, 40], [3.25, 2, 3.25, 2], [6, 5, 2, 1]], np.float32
)
IMAGES = np.array([0, 1, 1, 0, 1])


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize(("opset", "rule"), [(10, None), (16, "half_pixel"), (16, "output_half_pixel")])
def test_roi_align_agrees_with_onnxruntime(opset, rule, samples, mode, rng):
    x = rng.standard_normal((2, 3, 9, 8)).astype(np.float32)
    regions = REGIONS[:4]  # ONNX Runtime takes one that is the wrong way round for another number of samples
    more = {} if rule is None else {"coordinate_transformation_mode": rule}
    attributes = {"mode": mode, "output_height": 3, "output_width": 2, "sampling_ratio": samples, "spatial_scale": 0.5}
    agree("RoiAlign", [x, regions, IMAGES[:4]], opset=opset, **attributes, **more)


@pytest.mark.opencl
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_far_larger_than_the_image_take_no_memory_and_those_that_are_none_are_zeros(mode, device, rng):
    x = rng.standard_normal((1, 3, 9, 8)).astype(np.float32)
    regions = np.float32([[-1e4, -1e4, 1e4, 1e4], [-9, 2, 1e30, 5], [np.nan, 1, 4, 4], [1, 1, np.inf, 4]])
    model, feeds = one_node(
        "RoiAlign", [x, regions, np.zeros(4, np.int64)], opset=16, mode=mode, output_height=2, output_width=2
    )
    tracemalloc.start()
    with clgraph.compile(model, device="host") as compiled:
        wanted = compiled.run(feeds)["y0"]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 16 << 20
    assert not wanted[2:].any()
    with clgraph.compile(model, device=device) as compiled:
        found = compiled.run(feeds)["y0"]
    # Places of floats in a region of 2e4 pixels are off by 8 * 2^-24 of that, along both axes.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2 * 8 * 2.0**-24 * 2e4 * np.abs(x).max())


def test_maxima_pass_over_what_is_no_number_as_in_onnxruntime(rng):
    x = rng.standard_normal((2, 3, 9, 8)).astype(np.float32)
    x[0, 0, 3], x[1, 1, :, 2], x[0, 2] = np.inf, -np.inf, np.inf
    inputs = [x, np.float32([[0.5, 1, 6.25, 5.5], [3, 2, 5, 4]]), np.array([0, 1])]
    agree("RoiAlign", inputs, opset=16, mode="max", output_height=3, output_width=2, sampling_ratio=2)


@pytest.mark.opencl
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_samples_outside_an_image_are_zeros_beside_infinite_pixels(mode, kind, device, rng):
    x = rng.uniform(-2, -1, (1, 3, 5, 20)).astype(np.float32)
    x[0, 0, 0, 7], x[0, 1, 2, 0] = np.inf, -np.inf
    if mode == "avg":  # a maximum leaves out 0 times infinity, which the last pixel is there
        x[0, 2, 4, 19] = np.inf
    # Above, below, left and right of it, so far that half the samples are outside.
    regions = np.float32([[6.1, -3, 9, 0], [16, 4, 19, 9], [-4, 1.1, 1, 3.5], [18.5, 3, 24, 4.5], [6.1, -1.6, 9, -1.2]])
    model, feeds = one_node(
        "RoiAlign",
        [x, regions, np.zeros(5, np.int64)],
        opset=16,
        mode=mode,
        output_height=3,
        output_width=2,
        sampling_ratio=2,
    )
    with clgraph.compile(model, device=device, config={"device_class": kind}) as compiled:
        found = compiled.run(feeds)["y0"]
    (wanted,) = onnxruntime_outputs(model, feeds)
    # As in test_roi_align_is_within_its_bound; pixels are below 2 in size.
    bound = (2 * 8 * (24 + 9) + 4 + 8) * 2.0**-24 * 2
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)
    assert not found[4].any()


def test_max_roi_pool_agrees_with_onnxruntime(rng):
    x = rng.standard_normal((2, 3, 9, 8)).astype(np.float32)
    regions = np.concatenate([IMAGES[:, None], np.abs(REGIONS).round()], axis=1).astype(np.float32)[[0, 3]]
    agree("MaxRoiPool", [x, regions], opset=1, pooled_shape=[3, 2], spatial_scale=0.5)


def test_regions_are_divided_as_floats_and_corners_rounded_away_from_0():
    # 57 / 7 is rounded up, and so is what the last bin ends at: column 57 belongs to it. The second begins at -3.
    x = np.zeros((1, 1, 3, 64), np.float32)
    x[..., 57] = 5
    x[..., 7] = 3
    regions = np.array([[0, 0, 0, 56, 2], [0, -2.5, 0, 4.5, 2], [0, 2.5, -0.5, 12.25, 2.5]], np.float32)
    agree("MaxRoiPool", [x + 1, regions], opset=1, pooled_shape=[2, 7])


# Channels beyond those of a work-item.
SHAPES = ((2, 19, 9, 8), (5, 4), (5,))
# Multiples of 1/8 and scales of powers of two: places are exact, but for the thirds of a bin.
DRAW = {1: lambda rng, shape: REGIONS, 2: lambda rng, shape: IMAGES}


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
@pytest.mark.parametrize("maximum", [False, True])
@pytest.mark.parametrize(("samples", "half_pixel"), [(0, True), (2, True), (3, False), (0, False)])
def test_roi_align_is_within_its_bound(samples, half_pixel, maximum, dtype, engine):
    primitive = RoiAlign((3, 2), samples, 0.5, half_pixel, maximum)
    # The header: shares are off by 8 units of a place, here at most 20 and 9 pixels, along both axes; up to 36 samples.
    units = 2 * 8 * (20 + 9) + 36 + 8
    scale = lambda x, *_: np.abs(x).max()  # noqa: E731
    types = [dtype, DType.F32, DType.I64]
    found = check_op(engine, primitive, *SHAPES, dtype=types, draw=DRAW, ulps=units, scale=scale)
    assert "roi_align.ref" in found


@pytest.mark.opencl
@pytest.mark.parametrize(("samples", "maximum"), [(0, False), (2, False), (130, False), (0, True), (3, True)])
def test_rows_longer_than_a_vector_and_samples_beyond_the_list_are_within_the_bound(samples, maximum, engine):
    wide = np.array(
        [[30, 1, 37.5, 5.5], [0.25, 0, 36, 5], [12.5, -1, 15, 1], [21, 2, 21, 2], [2, 3, 19.5, 4]], np.float32
    )
    draw = {1: lambda rng, shape: wide, 2: DRAW[2]}
    # As above, with at most 38 pixels.
    units = 2 * 8 * (38 + 38) + max(samples, 19) ** 2 + 8
    scale = lambda x, *_: np.abs(x).max()  # noqa: E731
    check = {"dtype": [DType.F32, DType.F32, DType.I64], "draw": draw, "ulps": units, "scale": scale}
    if samples == 130:  # squared, for each element
        check["families"] = ("normal",)
    found = check_op(engine, RoiAlign((2, 3), samples, maximum=maximum), (2, 17, 6, 37), *SHAPES[1:], **check)
    assert ("roi_align.rows" in found) == (engine.device.info.kind == "cpu")


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_regions_of_halves_and_fused_operations(dtype, gpu_engine):
    types, fused = [dtype, DType.F16, DType.I64], [(Activation("relu"), [], 0)]
    scale = lambda x, *_: np.abs(x).max()  # noqa: E731
    check = {"dtype": types, "draw": DRAW, "ulps": 2 * 8 * (20 + 9) + 36 + 9, "scale": scale, "fused": fused}
    assert "roi_align.ref" in check_op(gpu_engine, RoiAlign((2, 3), 0, 0.5), *SHAPES, **check)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_max_roi_pool_is_exact(dtype, engine, gpu_engine):
    regions = np.concatenate([IMAGES[:, None], REGIONS], axis=1)
    for each in (engine, gpu_engine):
        check = {"dtype": dtype, "draw": {1: lambda rng, shape: regions}}
        found = check_op(each, MaxRoiPool((3, 2), 0.5), (2, 3, 9, 8), (5, 5), **check)
        assert "max_roi_pool.ref" in found


@pytest.mark.opencl
def test_maxima_of_regions_wider_than_a_vector_are_exact(engine):
    rows = [[0, 0, 0, 56, 5], [1, 30.5, 1, 37.5, 5.5], [0, -0.5, -3, 18, 5], [0, 70, 2, 90, 4], [1, 3, 4, 2, 1]]
    draw = {1: lambda rng, shape: np.array(rows, np.float32)}
    found = check_op(engine, MaxRoiPool((2, 7)), (2, 19, 6, 61), (5, 5), draw=draw)
    assert ("max_roi_pool.rows" in found) == (engine.device.info.kind == "cpu")


@pytest.mark.opencl
@pytest.mark.parametrize(("kind", "precision"), [("cpu", "f32"), ("gpu", "f32"), ("gpu", "f16")])
def test_regions_of_a_model_stay_on_the_device(precision, kind, device, rng):
    x = rng.standard_normal((2, 4, 9, 8)).astype(np.float32)
    attributes = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.5}
    source, feeds = one_node("RoiAlign", [x, REGIONS[:4], IMAGES[:4]], opset=16, **attributes)
    options = {"strict": True, "device_class": kind, "precision": precision}
    (got,) = clgraph.compile(source, device=device, config=options).run(feeds).values()
    (want,) = onnxruntime_outputs(source, feeds)
    # Halves: x, its means and the result are rounded, each to 2^-11.
    allowed = 4 * 2.0**-11 * np.abs(x).max() if precision == "f16" else 1e-5
    assert np.abs(got - want).max() <= allowed
