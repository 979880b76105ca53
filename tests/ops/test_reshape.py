"""Reshape, Squeeze, Unsqueeze and Flatten end as one primitive."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.errors import ShapeError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.ops.reshape import Reshape
from tests.support.check_op import check_op
from tests.support.onnx_case import agree, one_node


def ints(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize("opset", [7, 13, 14, 19, 21])
@pytest.mark.parametrize("shape", [(4, 6), (0, -1), (-1,), (0, 0, 2, 2), (1, 24, 1)])
def test_reshape_agrees_with_onnxruntime(shape, opset, rng):
    program = agree(
        "Reshape", [rng.standard_normal((2, 3, 4)).astype(np.float32), ints(*shape)], opset=opset, constant=(1,)
    )
    assert all(node.primitive == Reshape(node.output.layout.shape) for node in program)


def test_a_zero_means_zero_when_the_model_says_so():
    agree("Reshape", [np.zeros((0, 3), np.float32), ints(3, 0)], opset=14, constant=(1,), allowzero=1)


@pytest.mark.parametrize("opset", [7, 11, 13, 21])
def test_squeeze_and_unsqueeze_agree_with_onnxruntime(opset, rng):
    x = rng.standard_normal((1, 3, 1, 2)).astype(np.float32)
    agree("Squeeze", [x], opset=opset)
    for op, axes in (("Squeeze", (0, 2)), ("Squeeze", (-2,)), ("Unsqueeze", (0, 3)), ("Unsqueeze", (-1, 1))):
        if opset < 11 and min(axes) < 0:
            continue
        if opset < 13:
            agree(op, [x], opset=opset, axes=list(axes))
        else:
            agree(op, [x, ints(*axes)], opset=opset, constant=(1,))


@pytest.mark.parametrize("opset", [7, 9, 11, 21])
@pytest.mark.parametrize("axis", [0, 1, 3, -1])
def test_flatten_agrees_with_onnxruntime(axis, opset, rng):
    if axis < 0 and opset < 11:
        pytest.skip("negative axes came with opset 11")
    agree("Flatten", [rng.standard_normal((2, 3, 4)).astype(np.float32)], opset=opset, axis=axis)


def test_a_shape_that_only_a_run_knows_is_refused_by_name():
    model, _ = one_node("Reshape", [np.zeros((2, 3), np.float32), ints(6)], opset=13)
    with pytest.raises(UnsupportedError, match=r"'node'.*input 1 \(shape\) must be known"):
        load_onnx(model).build()


def test_refuses_a_shape_of_another_count():
    model, _ = one_node("Reshape", [np.zeros((2, 3), np.float32), ints(4, -1)], opset=13, constant=(1,))
    with pytest.raises(ShapeError, match="6 elements"):
        load_onnx(model).build()


TYPES = [DType.F32, DType.F16, DType.F64, DType.I64, DType.I32, DType.U8, DType.BOOL]


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
def test_every_implementation_copies_exactly(dtype, engine):
    check_op(engine, Reshape((5, -1)), (3, 4, 5), dtype=dtype, families=["normal"])
    check_op(engine, Reshape(()), (1, 1), dtype=dtype, families=["normal"])
