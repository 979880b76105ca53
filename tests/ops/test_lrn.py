"""Local response normalisation."""

import numpy as np
import pytest

from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_lrn_agrees_with_onnxruntime(size, opset, rng):
    x = rng.standard_normal((2, 7, 3, 4)).astype(np.float32) * 3
    agree("LRN", [x], opset=opset, size=size, alpha=0.01, beta=0.6, bias=2.0)
