"""Rounding to 8 bits by a known scale, and the sum with 8 bits."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.activation import Activation
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.quantize import Quantize
from clgraph.ops.static_quantize import DequantizeAdd, StaticQuantize
from tests.support.check_op import check_op

BYTES = lambda rng, shape: rng.integers(-128, 128, shape)  # noqa: E731
QUARTERS = lambda rng, shape: np.round(rng.standard_normal(shape) * 200) / 4  # noqa: E731


@pytest.mark.parametrize(("dtype", "zero"), [(DType.I8, -3), (DType.U8, 200)])
def test_rounding_is_that_of_quantize(dtype, zero, rng):
    x = np.concatenate([QUARTERS(rng, 500), [np.nan, np.inf, -np.inf, 1e30]]).astype(np.float32)
    for scale in (0.5, 0.3):
        got = StaticQuantize(scale, zero, dtype).reference(x)[0]
        want = Quantize(0, dtype=dtype).reference(x, np.array(scale, np.float32), np.array(zero, dtype.numpy))[0]
        np.testing.assert_array_equal(got, want)


def test_the_sum_is_that_with_dequantized_bytes(rng):
    v, q = rng.standard_normal((3, 4)).astype(np.float32), rng.integers(0, 256, (4,), np.uint8)
    floats = Dequantize(0).reference(q, np.array(0.3, np.float32), np.array(7, np.uint8))[0]
    np.testing.assert_array_equal(DequantizeAdd(0.3, 7).reference(v, q)[0], v + floats)


@pytest.mark.opencl
@pytest.mark.parametrize("source", [DType.F32, DType.F16])
@pytest.mark.parametrize(("dtype", "zero"), [(DType.I8, -3), (DType.U8, 200)])
def test_every_implementation_rounds_like_the_reference(dtype, zero, source, gpu_engine):
    # Quarters in halves: no quotient is rounded, ties occur, and results saturate.
    draw = {0: QUARTERS}
    check_op(gpu_engine, StaticQuantize(0.5, zero, dtype), (2, 3, 5, 7), dtype=source, draw=draw, families=["normal"])


@pytest.mark.opencl
def test_what_is_no_number_becomes_the_smallest_integer(engine):
    draw = {0: lambda rng, shape: np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.6])}
    for dtype in (DType.I8, DType.U8):
        check_op(engine, StaticQuantize(1.0, 5, dtype), (6,), draw=draw, families=["normal"])


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.I8, DType.U8])
def test_every_implementation_adds_like_the_reference(dtype, gpu_engine):
    draw = {1: lambda rng, shape: rng.integers(0, 128, shape)}
    # One rounding, and one of the product where it is not fused.
    scale = lambda v, q: np.abs(v) + 2 * np.abs(0.3 * (q.astype(float) - 9))  # noqa: E731
    fused = [(Activation("relu"), [], 0)]
    shapes = ((2, 3, 5, 7), (3, 1, 7))
    check_op(gpu_engine, DequantizeAdd(0.3, 9), *shapes, dtype=(DType.F32, dtype), draw=draw, scale=scale, ulps=2)
    check_op(
        gpu_engine,
        DequantizeAdd(0.3, 9),
        *shapes,
        dtype=(DType.F32, dtype),
        draw=draw,
        scale=scale,
        ulps=2,
        fused=fused,
    )


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="i8 or u8"):
        StaticQuantize(1.0, 0, DType.I16).infer([Layout(DType.F32, (3,))])
    with pytest.raises(ShapeError, match="broadcast"):
        DequantizeAdd(1.0, 0).infer([Layout(DType.F32, (3,)), Layout(DType.I8, (2, 3))])
