"""Where."""

import numpy as np
import pytest

from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [9, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_where_agrees_with_onnxruntime(dtype, opset, rng):
    condition = rng.random((2, 1, 4)) < 0.5
    a, b = (rng.standard_normal((3, 4)) * 9).astype(dtype), (rng.standard_normal((2, 3, 1)) * 9).astype(dtype)
    agree("Where", [condition, a, b], opset=opset)
