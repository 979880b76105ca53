"""Expand and Tile."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.errors import ShapeError
from clgraph.ops.expand import Expand, Repeat
from tests.support.check_op import check_op
from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [8, 13])
@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 1), (5, 1, 3, 4), (1,)])
def test_expand_agrees_with_onnxruntime(shape, opset, rng):
    x = (
        rng.standard_normal((3, 1)).astype(np.float32)
        if shape != (5, 1, 3, 4)
        else rng.standard_normal((3, 4)).astype(np.float32)
    )
    agree("Expand", [x, np.array(shape, np.int64)], opset=opset, constant=(1,))


def test_refuses_shapes_that_do_not_broadcast(rng):
    with pytest.raises(ShapeError, match="does not broadcast"):
        agree("Expand", [rng.standard_normal((3, 2)).astype(np.float32), np.array([4, 2])], opset=13, constant=(1,))


@pytest.mark.parametrize("opset", [7, 13])
def test_tile_agrees_with_onnxruntime(opset, rng):
    x = rng.standard_normal((2, 3)).astype(np.float32)
    agree("Tile", [x, np.array([2, 3], np.int64)], opset=opset, constant=(1,))
    agree("Tile", [x, np.array([1, 0], np.int64)], opset=opset, constant=(1,))


TYPES = [DType.F32, DType.F16, DType.F64, DType.I64, DType.I32, DType.U8, DType.BOOL]


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
def test_every_implementation_copies_exactly(dtype, engine):
    check_op(engine, Expand((2, 3, 1, 5)), (3, 7, 1), dtype=dtype, families=["normal"])
    check_op(engine, Expand((4,)), (), dtype=dtype, families=["normal"])
    check_op(engine, Repeat((2, 1, 3)), (2, 3, 4), dtype=dtype, families=["normal"])
    check_op(engine, Repeat((0, 2)), (2, 3), dtype=dtype, families=["normal"])
