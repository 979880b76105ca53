"""Running sums."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.cumulative_sum import CumulativeSum
from tests.support.check_op import check_op
from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [11, 14])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumsum_agrees_with_onnxruntime(reverse, exclusive, axis, opset, rng):
    more = {"exclusive": exclusive, "reverse": reverse, "constant": (1,), "opset": opset}
    agree("CumSum", [rng.standard_normal((3, 5)).astype(np.float32), np.array(axis, np.int64)], **more)
    agree("CumSum", [rng.integers(-9, 9, (3, 5)), np.array(axis, np.int64)], **more)


@pytest.mark.opencl
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_implementation_is_within_the_bound_of_its_sums(reverse, exclusive, engine):
    for axis, shape in ((0, (19, 3)), (1, (2, 9, 4))):
        primitive = CumulativeSum(axis, exclusive, reverse)
        inclusive = CumulativeSum(axis, False, reverse)
        scale = lambda x, p=inclusive: p.reference(np.abs(x))[0]  # noqa: E731
        for dtype in (DType.F32, DType.F16):
            check_op(engine, primitive, shape, ulps=shape[axis], scale=scale, dtype=dtype)
        check_op(engine, primitive, shape, dtype=DType.I64)


@pytest.mark.parametrize("reverse", [0, 1])
def test_sums_without_the_element_itself_are_those_in_front_of_what_is_infinite(reverse):
    x = np.array([[1, np.inf, 2, 3], [np.nan, 4, -np.inf, 2**24]], np.float32)
    (found,) = CumulativeSum(1, reverse=bool(reverse), exclusive=True).reference(x)
    want = {
        0: [[0, 1, np.inf, np.inf], [0, np.nan, np.nan, np.nan]],
        1: [[np.inf, 5, 3, 0], [-np.inf, -np.inf, 2**24, 0]],
    }[reverse]
    np.testing.assert_array_equal(found, want)
    (empty,) = CumulativeSum(0, exclusive=True).reference(np.zeros((0, 3), np.float32))
    assert empty.shape == (0, 3)
