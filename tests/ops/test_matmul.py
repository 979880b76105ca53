"""Products of matrices."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.matmul import MatMul
from tests.support.onnx_case import agree

SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((4,), (4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (4,)),
    ((2, 3, 4), (4, 2)),
]


@pytest.mark.parametrize("opset", [7, 9, 13])
@pytest.mark.parametrize("shapes", SHAPES)
def test_matmul_agrees_with_onnxruntime(shapes, opset, rng):
    agree("MatMul", [rng.standard_normal(s).astype(np.float32) for s in shapes], opset=opset)


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@pytest.mark.parametrize("alpha_beta", [(1.0, 1.0), (0.5, 1.0), (1.0, 2.0), (0.5, 2.0), (0.5, 0.0)])
@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_gemm_agrees_with_onnxruntime(transposed, alpha_beta, opset, rng):
    a = rng.standard_normal((4, 3) if transposed[0] else (3, 4)).astype(np.float32)
    b = rng.standard_normal((5, 4) if transposed[1] else (4, 5)).astype(np.float32)
    attributes = dict(zip(("transA", "transB", "alpha", "beta"), (*transposed, *alpha_beta), strict=True))
    for bias in ((5,), (3, 5), (3, 1), ()):
        agree("Gemm", [a, b, np.asarray(rng.standard_normal(bias), np.float32)], opset=opset, **attributes)
    if opset >= 11:
        agree("Gemm", [a, b], opset=opset, **attributes)


def test_refuses_matrices_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"has 4 columns, \[5, 2\] has 5 rows"):
        MatMul().infer([Layout(DType.F32, (3, 4)), Layout(DType.F32, (5, 2))])
