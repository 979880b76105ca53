"""ONNX's operators with channels last, against those with channels first."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.frontend.onnx_loader import load_onnx
from tests.support.onnx_case import one_node, reference_outputs

F = np.float32
X, W = (2, 4, 6, 5), (6, 4, 3, 3)
QUANTISED = [F(0.05), np.uint8(120), W, F(0.01), np.int8(0), F(0.4), np.uint8(100)]
CASES = {
    "AveragePool": ([X], {"kernel_shape": [2, 3], "pads": [1, 0, 0, 1]}),
    "Conv": ([X, W, (6,)], {"strides": [2, 1], "pads": [1, 1, 0, 0]}),
    "ConvTranspose": ([X, (4, 3, 2, 2)], {"strides": [2, 2]}),
    "GlobalAveragePool": ([X], {}),
    "GlobalMaxPool": ([X], {}),
    "MaxPool": ([X], {"kernel_shape": [3, 2], "strides": [2, 1]}),
    "QLinearConv": ([X, *QUANTISED], {"pads": [1, 0, 1, 2]}),
}


@pytest.mark.parametrize("op_type", CASES)
def test_channels_that_come_last_give_the_same(op_type, rng):
    shapes, more = CASES[op_type]
    kinds = [np.uint8 if op_type == "QLinearConv" else F, np.int8 if op_type == "QLinearConv" else F]
    inputs = [rng.integers(-9, 9, a).astype(kinds[i > 0]) if isinstance(a, tuple) else a for i, a in enumerate(shapes)]

    def run(x, **domain):
        model, feeds = one_node(op_type, [x, *inputs[1:]], opset=17, **more, **domain)
        return reference_outputs(load_onnx(model).build(), feeds)[0]

    last = run(np.ascontiguousarray(inputs[0].transpose(0, 2, 3, 1)), domain="com.ms.internal.nhwc")
    np.testing.assert_array_equal(last, run(inputs[0]).transpose(0, 2, 3, 1))
