"""Transposition."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.transpose import Transpose
from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [7, 13, 21])
@pytest.mark.parametrize("axes", [None, (0, 2, 1, 3), (3, 1, 0, 2), (0, 1, 2, 3)])
def test_transpose_agrees_with_onnxruntime(axes, opset, rng):
    more = {} if axes is None else {"perm": list(axes)}
    agree("Transpose", [rng.standard_normal((2, 3, 4, 5)).astype(np.float32)], opset=opset, **more)


def test_refuses_what_is_no_order_of_the_axes():
    with pytest.raises(ShapeError, match="no order"):
        Transpose((0, 0)).infer([Layout(DType.F32, (2, 3))])
