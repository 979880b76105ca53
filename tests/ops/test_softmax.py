"""Softmax and its logarithm."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.softmax import Softmax
from clgraph.selector.choose import choose
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op
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


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("axes", "shape"),
    [
        ((2,), (2, 3, 65)),
        ((1,), (2, 19, 4)),
        ((1, 2), (3, 4, 5)),
        ((0,), (7,)),
        ((3,), (2, 3, 5, 130)),
        ((1,), (53, 2)),
        ((2,), (3, 21, 7)),
        ((1,), (5, 18, 1, 1)),
    ],
)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_every_implementation_is_within_its_bound(dtype, axes, shape, engine):
    k = int(np.prod([shape[a] for a in axes]))
    # Units of 2^-24 with k terms: the difference to the maximum d rounds once, which the exponential makes a relative
    # error |d|; exponentials have 3 ulps (6 units), the sum k + 6 and at most |d| exp(-|d|) < 1, the division 5.
    plain, logarithm = Softmax(axes), Softmax(axes, log=True)
    scale = lambda x: plain.reference(x)[0] * (1 + np.abs(x - x.max(axes, keepdims=True)))  # noqa: E731
    check_op(engine, plain, shape, ulps=k + 6 + 6 + 1 + 5, scale=scale, dtype=dtype)
    # The logarithm turns the sum's relative error k + 7 into an absolute one, has 3 ulps itself, then one rounding.
    size = lambda x: 1 + np.abs(logarithm.reference(x)[0])  # noqa: E731
    check_op(engine, logarithm, shape, ulps=k + 6 + 1 + 6 + 2, scale=size, dtype=dtype)


@pytest.mark.opencl
def test_fused_operations_are_applied(engine):
    fused = [(Eltwise("mul"), [(2, 3, 5)], 0)]
    scale = lambda x, m: np.abs(m) * Softmax((2,)).reference(x)[0] * (1 + x.max(2, keepdims=True) - x)  # noqa: E731
    check_op(engine, Softmax((2,)), (2, 3, 5), ulps=5 + 18 + 1, scale=scale, fused=fused)


def test_axes_of_one_element_behind_make_no_other_softmax() -> None:
    x = Layout(DType.F32, (900, 16, 1))
    names = [
        choose(Query(Softmax(axes), (x,), (x,), DeviceInfo(kind="cpu"), 1)).implementation.name
        for axes in ((1,), (1, 2))
    ]
    assert names == ["softmax.rows"] * 2
