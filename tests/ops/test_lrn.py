"""Local response normalisation."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.lrn import Lrn
from tests.support.check_op import check_op
from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_lrn_agrees_with_onnxruntime(size, opset, rng):
    x = rng.standard_normal((2, 7, 3, 4)).astype(np.float32) * 3
    agree("LRN", [x], opset=opset, size=size, alpha=0.01, beta=0.6, bias=2.0)


@pytest.mark.opencl
@pytest.mark.parametrize("size", [1, 4, 5])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_every_implementation_is_within_its_bound(dtype, size, engine):
    # Everything is positive: the sum size + 3 units (its factor rounded too), the power beta of it and 16 ulps (32
    # units) itself, plus beta's own rounding times the logarithm (at most 17 here); the division 5.
    ulps = 0.75 * (size + 3) + 32 + 17 + 5
    check_op(engine, Lrn(size, 0.01, 0.75, 2.0), (2, 19, 3, 4), ulps=ulps, dtype=dtype)
