"""Convolution: import, shapes and reference against ONNX Runtime, every implementation against the reference."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.convolution import Convolution
from tests.support.onnx_case import agree

CASES = {
    "plain": ((2, 3, 9, 8), (4, 3, 3, 3), {}),
    "padded_unevenly": ((1, 3, 9, 8), (4, 3, 3, 2), {"pads": [1, 0, 2, 1]}),
    "strides_and_dilations": (
        (1, 3, 13, 12),
        (4, 3, 3, 3),
        {"strides": [2, 3], "dilations": [2, 1], "pads": [2, 1, 2, 1]},
    ),
    "groups": ((1, 6, 7, 7), (8, 3, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": ((2, 5, 7, 7), (5, 1, 3, 3), {"group": 5, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "depthwise_multiplier": ((1, 3, 7, 7), (6, 1, 3, 3), {"group": 3}),
    "same_upper": ((1, 3, 10, 9), (4, 3, 4, 3), {"auto_pad": "SAME_UPPER", "strides": [3, 2]}),
    "same_lower": ((1, 3, 10, 9), (4, 3, 4, 3), {"auto_pad": "SAME_LOWER", "strides": [3, 2]}),
    "valid": ((1, 3, 10, 9), (4, 3, 4, 3), {"auto_pad": "VALID"}),
    "one_axis": ((2, 3, 11), (4, 3, 3), {"pads": [1, 1]}),
    "three_axes": ((1, 2, 5, 6, 4), (3, 2, 3, 2, 1), {"pads": [1, 0, 0, 1, 1, 0]}),
}


@pytest.mark.parametrize("opset", [7, 11, 22])
@pytest.mark.parametrize("case", CASES)
def test_import_and_reference_agree_with_onnxruntime(case, opset, rng):
    x, w, attributes = CASES[case]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in (x, w, w[:1])]
    # Two float32 sums of at most 36 products below 10: 2 * 36 * 2^-24 * 36 * 10 at the very worst.
    agree("Conv", arrays, opset=opset, atol=1e-4, **attributes)
    agree("Conv", arrays[:2], opset=opset, atol=1e-4, constant=(1,), **attributes)


def test_refuses_weights_that_do_not_fit_the_channels():
    with pytest.raises(ShapeError, match="do not fit 5 channels"):
        Convolution((1,), (1,), ((0, 0),)).infer([Layout(DType.F32, (1, 5, 9)), Layout(DType.F32, (4, 3, 3))])


def test_refuses_a_window_larger_than_the_padded_input():
    with pytest.raises(ShapeError, match="does not fit 2 elements"):
        Convolution((1,), (1,), ((0, 0),)).infer([Layout(DType.F32, (1, 3, 2)), Layout(DType.F32, (4, 3, 3))])
