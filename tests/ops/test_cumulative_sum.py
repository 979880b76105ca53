"""Running sums."""

import numpy as np
import pytest

from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [11, 14])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumsum_agrees_with_onnxruntime(reverse, exclusive, axis, opset, rng):
    more = {"exclusive": exclusive, "reverse": reverse, "constant": (1,), "opset": opset}
    agree("CumSum", [rng.standard_normal((3, 5)).astype(np.float32), np.array(axis, np.int64)], **more)
    agree("CumSum", [rng.integers(-9, 9, (3, 5)), np.array(axis, np.int64)], **more)
