"""Matrix products of 8-bit integers."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.activation import Activation
from clgraph.ops.quantized_matmul import QuantizedMatMul
from clgraph.ops.static_quantize import DequantizeAdd, StaticQuantize
from tests.ops.test_quantized_convolution import DRAWN, EXACT, TYPES
from tests.support.check_op import check_op

CASES = {
    "matrix": ((70, 48), (48, 132), False),
    "transposed": ((3, 80), (8, 80), True),
    "batch": ((2, 9, 64), (64, 68), False),
    "two_batches": ((2, 3, 5, 32), (32, 16), False),
}
OURS = {"quantized_matmul.ref", "quantized_matmul.gpu_tiled"}


def scale_of(a, b, start, scale, bias, primitive):
    y = primitive.reference(a, b, start, scale, bias)[0]
    return np.abs(y - bias) + np.abs(y)


def check(engine, case, draw=DRAWN, **more):
    a, b, transposed = CASES[case] if isinstance(case, str) else case
    primitive = QuantizedMatMul(transposed)
    n = b[0] if transposed else b[1]
    scale = lambda *arrays: scale_of(*arrays[:5], primitive)  # noqa: E731
    how = {"ulps": 1.0, "scale": scale, "families": ["normal"], "dtype": TYPES, "constant": (1, 2, 3, 4), **more}
    return check_op(engine, primitive, a, b, (n,), (n,), (n,), draw=draw, **how)


@pytest.mark.opencl
@pytest.mark.parametrize("case", CASES)
def test_sums_are_exact_and_scaled_within_the_bound(case, gpu_engine):
    assert check(gpu_engine, case).keys() == OURS


@pytest.mark.opencl
@pytest.mark.parametrize("case", CASES)
def test_a_residual_an_activation_and_rounding_are_applied_exactly(case, gpu_engine):
    a, b, transposed = CASES[case]
    y = (*a[:-1], b[0] if transposed else b[1])
    steps = [(DequantizeAdd(2.0**-4, 5), [y], 0), (Activation("relu"), [], 0), (StaticQuantize(0.25, -128), [], 0)]
    check(gpu_engine, case, EXACT, fused=steps, ulps=0)


@pytest.mark.opencl
def test_rows_of_one_operand_are_read_for_all(gpu_engine):
    steps = [(DequantizeAdd(2.0**-4, 5), [(9, 68)], 0), (StaticQuantize(0.25, -128), [], 0)]
    check(gpu_engine, "batch", EXACT, fused=steps, ulps=0)


@pytest.mark.opencl
@pytest.mark.parametrize("case", CASES)
def test_matrix_units_give_the_same(case, nvidia_engine):
    a, b, transposed = CASES[case]
    y = (*a[:-1], b[0] if transposed else b[1])
    steps = [(DequantizeAdd(2.0**-4, 5), [y], 0), (StaticQuantize(0.25, -128), [], 0)]
    assert check(nvidia_engine, case, EXACT, fused=steps, ulps=0, only=["quantized_matmul.nvidia"])


@pytest.mark.opencl
def test_more_axes_go_to_the_general_kernel(gpu_engine):
    assert check(gpu_engine, ((2, 1, 2, 3, 16), (16, 8), False)).keys() == {"quantized_matmul.ref"}


def test_what_does_not_fit_is_refused():
    def layouts(*shapes):
        return [Layout(t, s) for t, s in zip(TYPES, shapes, strict=True)]

    n = (8,)
    assert QuantizedMatMul(dtype=DType.F16).infer(layouts((3, 4), (4, 8), n, n, n))[0].dtype == DType.F16
    with pytest.raises(ShapeError, match="has 4 columns"):
        QuantizedMatMul().infer(layouts((3, 4), (5, 8), n, n, n))
    with pytest.raises(ShapeError, match="requires matrices"):
        QuantizedMatMul().infer(layouts((4,), (4, 8), n, n, n))
