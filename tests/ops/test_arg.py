"""ArgMax and ArgMin."""

import numpy as np
import pytest

from tests.support.onnx_case import agree


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("opset", [7, 11, 12, 13])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_arg_agrees_with_onnxruntime(axis, opset, op, rng):
    x = rng.integers(-2, 3, (3, 7, 5)).astype(np.float32)
    agree(op, [x], opset=opset, axis=axis)
    agree(op, [x], opset=opset, axis=axis, keepdims=0)
    if opset >= 12:
        agree(op, [x], opset=opset, axis=axis - 3, select_last_index=1)
