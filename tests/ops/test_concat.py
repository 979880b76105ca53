"""Concatenation."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.concat import Concat
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
