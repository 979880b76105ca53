"""Interpolation."""

import numpy as np
import pytest

from clgraph.errors import UnsupportedError
from tests.support.onnx_case import agree

COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
SCALES = np.array([1, 1, 2.5, 1.5], np.float32)
DOWN = np.array([1, 1, 0.6, 0.7], np.float32)


@pytest.fixture
def x(rng):
    return rng.standard_normal((1, 2, 5, 6)).astype(np.float32)


@pytest.mark.parametrize("scales", [SCALES, DOWN])
@pytest.mark.parametrize("opset", [11, 13, 19])
@pytest.mark.parametrize("rule", COORDINATES)
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
    agree("Resize", [x, None, scales], opset=13, constant=(1, 2), atol=1e-5, **attributes)


def test_cubic_taps_outside_may_be_excluded(x):
    more = {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}
    agree("Resize", [x, None, SCALES], opset=13, constant=(1, 2), atol=1e-5, **more)


@pytest.mark.parametrize("opset", [11, 13, 18, 19])
def test_sizes_agree_with_onnxruntime(opset, x):
    roi = None if opset >= 13 else np.array([], np.float32)
    scales = None if opset >= 13 else np.array([], np.float32)
    inputs = [x, roi, scales, np.array([1, 2, 7, 9], np.int64)]
    agree("Resize", inputs, opset=opset, constant=(1, 2, 3), mode="linear", atol=1e-5)


def test_axes_and_policy_agree_with_onnxruntime(x):
    sizes = np.array([11, 9], np.int64)
    for policy in ("stretch", "not_larger", "not_smaller"):
        more = {"axes": [2, 3], "keep_aspect_ratio_policy": policy, "mode": "linear"}
        agree("Resize", [x, None, None, sizes], opset=18, constant=(3,), atol=1e-5, **more)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_old_resize_and_upsample_agree_with_onnxruntime(mode, x):
    scales = np.array([1, 1, 2, 3], np.float32)
    agree("Resize", [x, scales], opset=10, constant=(1,), mode=mode, atol=1e-5)
    agree("Upsample", [x, scales], opset=9, constant=(1,), mode=mode, atol=1e-5)
    agree("Upsample", [x], opset=7, scales=[1.0, 1.0, 2.0, 3.0], mode=mode, atol=1e-5)


def test_antialias_is_refused(x):
    with pytest.raises(UnsupportedError, match="antialias"):
        agree("Resize", [x, None, DOWN], opset=18, constant=(2,), mode="linear", antialias=1)
