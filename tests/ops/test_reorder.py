"""Casts, and changes of format."""

import numpy as np
import pytest

from tests.support.onnx_case import ONNX_TYPES, agree

TYPES = [np.float32, np.float16, np.float64, np.int64, np.int32, np.int8, np.uint8, np.bool_]


@pytest.mark.parametrize("opset", [9, 13, 19, 21])
@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_casts_agree_with_onnxruntime(dtype, to, opset):
    x = (
        np.array([-3.7, -1.5, -0.2, 0, 0.5, 1, 2.5, 100.9])
        if np.dtype(dtype).kind == "f"
        else np.array([-3, -1, 0, 1, 2, 100])
    )
    if np.dtype(to).kind in "ub" or np.dtype(dtype).kind == "u":
        x = np.abs(x)
    agree("Cast", [x.astype(dtype)], opset=opset, to=ONNX_TYPES[np.dtype(to)])
