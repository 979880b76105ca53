"""Pooling over windows."""

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.ops.activation import Activation
from clgraph.ops.pooling import Pooling
from tests.support.check_op import check_op
from tests.support.onnx_case import agree

CASES = {
    "plain": ((2, 3, 9, 8), {"kernel_shape": [3, 2]}),
    "padded_strided": ((1, 3, 9, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "uneven_pads": ((1, 3, 9, 8), {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 0, 1, 2]}),
    "same_upper": ((1, 3, 9, 8), {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": "SAME_UPPER"}),
    "same_lower": ((1, 3, 9, 8), {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": "SAME_LOWER"}),
    "one_axis": ((2, 3, 11), {"kernel_shape": [3], "strides": [2]}),
    "three_axes": ((1, 2, 5, 6, 4), {"kernel_shape": [2, 3, 2]}),
}
CEIL = {
    "ceil": ((1, 2, 10, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "ceil_padded": ((1, 2, 6, 7), {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
    "ceil_starts_in_padding": (
        (1, 2, 5, 5),
        {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
}
LARGE = {
    "a stride covers it": ((1, 2, 1, 2), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "a stride does not": ((1, 2, 1, 2), {"kernel_shape": [3, 2], "strides": [2, 2]}),
    "stride one": ((1, 2, 1, 2), {"kernel_shape": [2, 2]}),
    "wide, padded": ((2, 2, 1, 3), {"kernel_shape": [4, 3], "strides": [3, 2], "pads": [1, 0, 0, 1]}),
    "by two strides: none": ((1, 2, 5, 5), {"kernel_shape": [3, 3], "strides": [2, 2], "dilations": [3, 1]}),
    "an odd rest": ((1, 2, 4, 5), {"kernel_shape": [5, 6], "strides": [3, 4], "ceil_mode": 1}),
}


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_a_window_larger_than_the_input_agrees_with_onnxruntime(op, case, rng):
    shape, attributes = LARGE[case]
    x = rng.standard_normal(shape).astype(np.float32) - 3
    agree(op, [x], opset=19, **attributes)
    if op == "AveragePool":
        agree(op, [x], opset=19, count_include_pad=1, **attributes)


@pytest.mark.parametrize("opset", [8, 10, 12, 22])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_import_and_reference_agree_with_onnxruntime(op, case, opset, rng):
    shape, attributes = CASES[case]
    agree(op, [rng.standard_normal(shape).astype(np.float32) - 3], opset=opset, **attributes)


@pytest.mark.parametrize("opset", [10, 12, 22])
@pytest.mark.parametrize("case", CEIL)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_a_partial_last_window_agrees_with_onnxruntime(op, case, opset, rng):
    shape, attributes = CEIL[case]
    agree(op, [rng.standard_normal(shape).astype(np.float32) - 3], opset=opset, **attributes)


@pytest.mark.parametrize("case", [*CASES, *CEIL])
def test_an_average_over_the_pads_agrees_with_onnxruntime(case, rng):
    shape, attributes = (CASES | CEIL)[case]
    x = rng.standard_normal(shape).astype(np.float32) - 3
    agree("AveragePool", [x], opset=19, count_include_pad=1, **attributes)


def test_dilated_windows_agree_with_onnxruntime(rng):
    x = rng.standard_normal((1, 3, 11, 10)).astype(np.float32) - 3
    agree("MaxPool", [x], opset=12, kernel_shape=[3, 2], dilations=[2, 3], pads=[1, 1, 1, 1])


@pytest.mark.parametrize("count_include_pad", [0, 1])
def test_a_dilated_average_is_the_mean_of_its_taps(count_include_pad, rng):
    x = rng.standard_normal((1, 1, 9, 8))
    pooling = Pooling("average", (3, 2), (2, 1), (2, 3), ((1, 2), (2, 1)), count_include_pad=bool(count_include_pad))
    (y,) = pooling.reference(x)
    for row, column in np.ndindex(*y.shape[2:]):
        at = [(2 * row - 1 + 2 * i, column - 2 + 3 * j) for i in range(3) for j in range(2)]
        taps = [x[0, 0, r, c] for r, c in at if 0 <= r < 9 and 0 <= c < 8]
        count = len(at) if count_include_pad else len(taps)
        assert np.isclose(y[0, 0, row, column], sum(taps) / count)


def test_integers_are_pooled(rng):
    agree("MaxPool", [rng.integers(-100, 100, (1, 2, 6, 6)).astype(np.int8)], opset=12, kernel_shape=[3, 3])


@pytest.mark.parametrize("order", [0, 1])
def test_the_indices_of_a_max_pool_are_where_the_maxima_stand(order, rng):
    x = rng.integers(-3, 3, (2, 2, 7, 6)).astype(np.float32)
    more = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]}
    agree("MaxPool", [x], opset=12, outputs=2, storage_order=order, **more)


@pytest.mark.parametrize("shape", [(0, 2, 7, 6), (1, 2, 2, 6)])
def test_a_max_pool_without_results_has_no_indices(shape):
    x = np.zeros(shape, np.float32)
    (node,) = agree("MaxPool", [x], opset=12, outputs=2, kernel_shape=[3, 2], dilations=[2, 1], strides=[2, 1])
    assert node.outputs[1].layout.count == 0


DEVICE_CASES = {
    "plain": ((2, 19, 9, 8), ((3, 2),)),
    "padded_strided": ((1, 16, 15, 14), ((3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)))),
    "halving": ((1, 33, 14, 13), ((2, 2), (2, 2))),
    "uneven": ((1, 3, 9, 8), ((2, 3), (2, 1), (2, 1), ((0, 1), (1, 2)))),
    "ceil": ((1, 5, 10, 8), ((3, 3), (2, 2), (1, 1), ((0, 0), (0, 0)), True)),
    "one_axis": ((2, 3, 11), ((3,), (2,))),
    "three_axes": ((1, 2, 5, 6, 4), ((2, 3, 2),)),
    "large_window": ((2, 18, 1, 7), ((2, 2), (2, 2))),
    "larger_window": ((1, 5, 4, 3), ((5, 4), (3, 2), (1, 1), ((0, 0), (0, 0)), True)),
}


@pytest.mark.opencl
@pytest.mark.parametrize("case", DEVICE_CASES)
def test_a_maximum_is_exact(case, engine):
    shape, arguments = DEVICE_CASES[case]
    negative = {0: lambda rng, s: rng.standard_normal(s) - 5}
    check_op(engine, Pooling("max", *arguments), shape)
    check_op(engine, Pooling("max", *arguments), shape, draw=negative, families=["normal"])
    check_op(engine, Pooling("max", *arguments), shape, dtype=DType.F16, fused=[(Activation("relu"), [], 0)])


@pytest.mark.opencl
@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize("case", DEVICE_CASES)
def test_an_average_is_within_the_bound_of_its_sum(case, count_include_pad, engine):
    shape, (kernel, *rest) = DEVICE_CASES[case]
    primitive = Pooling("average", kernel, *rest)
    primitive = replace(primitive, count_include_pad=count_include_pad)
    bound = primitive.bind([Layout(DType.F32, shape)], [None]).primitive
    # A sum of as many as the window has, and OpenCL's 2.5 ulps of a division.
    ulps, scale = np.prod(kernel) + 5, lambda x: bound.reference(np.abs(x))[0]
    check_op(engine, primitive, shape, ulps=ulps, scale=scale)
