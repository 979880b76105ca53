"""Gather."""

import numpy as np
import pytest

from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_gather_agrees_with_onnxruntime(shape, axis, opset, rng):
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    indices = rng.integers(0 if opset < 11 else -3, 3, shape)
    for dtype in (np.int64, np.int32):
        agree("Gather", [x, np.asarray(indices, dtype)], opset=opset, axis=axis)
