"""ArgMax and ArgMin."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.arg import ArgExtremum
from tests.support.check_op import check_op
from tests.support.onnx_case import agree


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("opset", [7, 11, 12, 13])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_arg_agrees_with_onnxruntime(axis, opset, op, rng):
    x = rng.integers(-2, 3, (3, 7, 5)).astype(np.float32)
    agree(op, [x], opset=opset, axis=axis)
    agree(op, [x], opset=opset, axis=axis, keepdims=0)
    if opset >= 12:
        agree(op, [x], opset=opset, axis=axis - 3, select_last_index=1)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I32, DType.U8])
@pytest.mark.parametrize("smallest", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_every_implementation_finds_the_place(last, smallest, dtype, engine):
    draw = {0: lambda rng, shape: rng.integers(0, 5, shape)}
    for axis in (0, 1, 2):
        check_op(engine, ArgExtremum(smallest, axis, axis == 1, last), (3, 9, 5), dtype=dtype, draw=draw)
    check_op(engine, ArgExtremum(smallest, 0, True, last), (70,), dtype=dtype)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_no_results_are_of_no_elements(keepdims):
    agree("ArgMin", [np.zeros((0, 0), np.float32)], opset=13, keepdims=keepdims)
    with pytest.raises(ShapeError, match="no element along axis 0"):
        ArgExtremum().infer([Layout(DType.F32, (0, 3))])
