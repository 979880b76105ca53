"""Where."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.where import Where
from tests.support.check_op import check_op
from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [9, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_where_agrees_with_onnxruntime(dtype, opset, rng):
    condition = rng.random((2, 1, 4)) < 0.5
    a, b = (rng.standard_normal((3, 4)) * 9).astype(dtype), (rng.standard_normal((2, 3, 1)) * 9).astype(dtype)
    agree("Where", [condition, a, b], opset=opset)


TYPES = [DType.F32, DType.F16, DType.F64, DType.I64, DType.I32, DType.U8, DType.BOOL]


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
def test_every_implementation_copies_exactly(dtype, engine):
    check_op(engine, Where(), (2, 1, 7), (3, 1), (2, 3, 7), dtype=(DType.BOOL, dtype, dtype), families=["normal"])
