"""Concatenation."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.concat import Concat
from tests.support.check_op import check_op
from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concat_agrees_with_onnxruntime(axis, opset, rng):
    if axis < 0 and opset < 11:
        pytest.skip("negative axes came with opset 11")
    shapes = [[2, 3, 4] for _ in range(3)]
    for i, shape in enumerate(shapes):
        shape[axis] += i
    for dtype in (np.float32, np.int64):
        agree("Concat", [(rng.standard_normal(s) * 9).astype(dtype) for s in shapes], opset=opset, axis=axis)


def test_refuses_other_sizes_off_the_axis():
    with pytest.raises(ShapeError, match="does not fit"):
        Concat(1).infer([Layout(DType.F32, (2, 3)), Layout(DType.F32, (3, 3))])


TYPES = [DType.F32, DType.F16, DType.F64, DType.I64, DType.I32, DType.U8, DType.BOOL]


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("axis", "shapes"),
    [(1, [(2, 3, 4, 5), (2, 17, 4, 5), (2, 1, 4, 5)]), (0, [(2, 3), (0, 3), (4, 3)]), (2, [(2, 3, 1), (2, 3, 7)])],
)
def test_every_implementation_copies_exactly(axis, shapes, dtype, engine):
    check_op(engine, Concat(axis), *shapes, dtype=dtype, families=["normal"])
