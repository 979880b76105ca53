"""Softmax and its logarithm."""

import numpy as np
import pytest

from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax_agrees_with_onnxruntime_before_and_after_opset_13(op, axis, opset, rng):
    if axis == -1 and opset < 11:
        pytest.skip("negative axes came with opset 11")
    more = {} if axis is None else {"axis": axis}
    agree(op, [rng.standard_normal((2, 3, 4)).astype(np.float32) * 3], opset=opset, **more)


def test_large_values_do_not_overflow():
    agree("Softmax", [np.array([[1000.0, 1001.0, 990.0]], np.float32)], opset=13)
