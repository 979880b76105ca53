"""Products with constant weights on the matrix units of Intel and AMD, in the emulator."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.matrix_units.amd.units import MATRIX
from clgraph.implementations.matrix_units.intel import matmul as module
from clgraph.implementations.matrix_units.intel.units import DPAS
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op

INTEL, AMD = DPAS.feature, MATRIX.feature
UNITS = {INTEL: DPAS, AMD: MATRIX}
NAMES = {INTEL: "matmul.intel_f16", AMD: "matmul.amd_f16"}


def _check(matrix_engine, primitive, *shapes, extra=0, **more):
    engine, vendor = matrix_engine
    # Two units a term, since sums may be truncated.
    check = {"scale": lambda *a: primitive.reference(*map(np.abs, a))[0], "families": ("normal", "wide"), **more}
    units = 2 * shapes[0][-1] + 1 + extra
    check_op(engine, primitive, *shapes, ulps=units, dtype=DType.F16, only=[NAMES[vendor]], constant=(1,), **check)


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("a", "b"), [((37, 48), (48, 45)), ((3, 5, 32), (32, 72)), ((2, 1, 3, 16), (16, 20)), ((64,), (64, 33))]
)
@pytest.mark.parametrize("transposed", [False, True])
def test_products_are_within_the_bound_of_their_sum(a, b, transposed, matrix_engine):
    _check(matrix_engine, MatMul(transpose_b=transposed), a, b[::-1] if transposed else b)


@pytest.mark.opencl
def test_bias_and_fused_operations(matrix_engine):
    # Operands along rows, along the batch alone, and along columns: three axes of rows are counted.
    fused = [(Activation("relu"), [], 0), (Eltwise("mul"), [(5, 1)], 0), (Eltwise("add"), [(3, 1, 44)], 1)]
    primitive = MatMul()
    scale = lambda a, b, c, m, s: primitive.reference(*map(np.abs, (a, b, c)))[0] * np.abs(m) + np.abs(s)  # noqa: E731
    _check(matrix_engine, primitive, (3, 5, 32), (32, 44), (44,), extra=3, fused=fused, scale=scale)


def test_what_is_no_matrix_of_constant_weights_is_refused():
    def refusal(a, b, bias=(), constant=(1,), **attributes):
        shapes = (a, b, bias) if bias else (a, b)
        inputs, primitive = tuple(Layout(DType.F16, s) for s in shapes), MatMul(**attributes)
        device = DeviceInfo(kind="gpu", features=frozenset({INTEL}))
        q = Query(primitive, inputs, primitive.infer(inputs), device, len(inputs), constant=frozenset(constant))
        return module.MatMulIntelF16.refusal(q)

    assert refusal((8, 32), (32, 8)) is None
    assert refusal((8, 32), (32, 8), (8,)) is None
    assert refusal((8, 32), (32, 8), constant=()) == "requires a matrix of constant weights"
    assert refusal((2, 8, 32), (2, 32, 8)) == "requires a matrix of constant weights"
    assert refusal((8, 24), (24, 8)) == "requires multiples of 16 terms"
    assert refusal((8, 32), (32, 8), (8, 8)) == "requires a bias of one number a column"
    assert "side by side" in str(refusal((32, 8), (32, 8), transpose_a=True))
