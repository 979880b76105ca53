"""Products of matrices."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from tests.support.check_op import check_op, magnitude
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


DEVICE_SHAPES = [
    *SHAPES,
    ((37, 19), (19, 45)),
    ((2, 3, 33, 17), (2, 3, 17, 20)),
    ((1, 70), (70, 130)),
    ((65, 64), (64, 96)),
]


@pytest.mark.opencl
@pytest.mark.parametrize("shapes", DEVICE_SHAPES)
@pytest.mark.parametrize("constant", [(), (1,)])
def test_every_implementation_is_within_the_bound_of_its_sum(shapes, constant, engine):
    # A sum of K products rounds K times.
    check_op(engine, MatMul(), *shapes, ulps=shapes[0][-1] + 1, scale=magnitude(MatMul()), constant=constant)


@pytest.mark.opencl
@pytest.mark.parametrize("transposed", [(True, False), (False, True), (True, True)])
def test_transposed_inputs_bias_and_fused_operations(transposed, engine):
    primitive = MatMul(*transposed)
    a, b = ((19, 37) if transposed[0] else (37, 19)), ((45, 19) if transposed[1] else (19, 45))
    fused = [(Activation("relu"), [], 0), (Eltwise("mul"), [(37, 1)], 0)]
    scale = lambda a, b, c, m: magnitude(primitive)(a, b, c) * np.abs(m)  # noqa: E731
    check_op(engine, primitive, a, b, (45,), ulps=19 + 2 + 1, scale=scale, fused=fused)
    check_op(engine, primitive, a, b, (37, 1), ulps=19 + 2, scale=magnitude(primitive), dtype=DType.F16)


@pytest.mark.opencl
@pytest.mark.parametrize("constant", [(), (1,)])
@pytest.mark.parametrize("rows", [1, 7])
def test_long_sums_are_sums_of_shorter_ones(rows, constant, engine):
    # Added to a 1 one by one, all the others would be lost: an error of half of k units, more than 1024 + k / 1024.
    k = 2_500
    small = lambda rng, shape: np.where(np.arange(k) == 0, 1, 2.0**-25) * np.ones(shape)  # noqa: E731
    ones = lambda rng, shape: np.ones(shape)  # noqa: E731
    for primitive, right in ((MatMul(), (k, 37)), (MatMul(transpose_b=True), (37, k))):
        check_op(
            engine,
            primitive,
            (rows, k),
            right,
            ulps=1024 + k / 1024,
            scale=magnitude(primitive),
            constant=constant,
            draw={0: small, 1: ones},
            families=["normal"],
        )
