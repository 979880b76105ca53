"""Layer and instance normalisation."""

import numpy as np
import pytest

from tests.support.onnx_case import agree


@pytest.mark.parametrize("axis", [-1, 1, 2])
def test_layer_normalization_agrees_with_onnxruntime(axis, rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    scale, bias = (rng.standard_normal(x.shape[axis:]).astype(np.float32) for _ in range(2))
    agree("LayerNormalization", [x, scale, bias], opset=17, axis=axis, epsilon=1e-3)
    agree("LayerNormalization", [x, scale], opset=17, axis=axis)


@pytest.mark.parametrize("opset", [7, 22])
def test_instance_normalization_agrees_with_onnxruntime(opset, rng):
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    scale, bias = (rng.standard_normal(3).astype(np.float32) for _ in range(2))
    agree("InstanceNormalization", [x, scale, bias], opset=opset, epsilon=1e-3)
