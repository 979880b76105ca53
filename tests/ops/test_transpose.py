"""Transposition."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.transpose import Transpose
from tests.support.check_op import check_op
from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [7, 13, 21])
@pytest.mark.parametrize("axes", [None, (0, 2, 1, 3), (3, 1, 0, 2), (0, 1, 2, 3)])
def test_transpose_agrees_with_onnxruntime(axes, opset, rng):
    more = {} if axes is None else {"perm": list(axes)}
    agree("Transpose", [rng.standard_normal((2, 3, 4, 5)).astype(np.float32)], opset=opset, **more)


def test_refuses_what_is_no_order_of_the_axes():
    with pytest.raises(ShapeError, match="not an order"):
        Transpose((0, 0)).infer([Layout(DType.F32, (2, 3))])


TYPES = [DType.F32, DType.F16, DType.F64, DType.I64, DType.I32, DType.U8, DType.BOOL]


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("axes", "shape"),
    [
        ((1, 0), (37, 19)),
        ((0, 2, 3, 1), (2, 19, 5, 7)),
        ((0, 3, 1, 2), (2, 5, 7, 19)),
        ((2, 0, 3, 1, 4), (2, 3, 4, 5, 6)),
        ((), ()),
    ],
)
def test_every_implementation_copies_exactly(axes, shape, dtype, engine):
    check_op(engine, Transpose(axes), shape, dtype=dtype, families=["normal"])
