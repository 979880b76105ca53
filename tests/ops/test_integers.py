"""Integers of every width, bools and mixed types where operators have them beside floats."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.batch_normalization import BatchNormalization
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.grid_sample import GridSample
from clgraph.ops.matmul import MatMul
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.ops.resize import Resize
from clgraph.ops.scatter_elements import ScatterElements
from tests.support.check_op import check_op

WIDTHS = (DType.I8, DType.U16, DType.I64, DType.U64)
"""Of both signs, narrower and wider than what kernels compute in."""


def anything(dtype):
    """Return how to draw any number of *dtype*, its extremes among them."""

    def draw(rng, shape):
        low, high = dtype.bounds
        numbers = rng.integers(low, high, shape, dtype.numpy, endpoint=True)
        numbers.reshape(-1)[:2] = low, high
        return numbers

    return draw


@pytest.mark.opencl
def test_products_wrap_around(engine):
    for dtype in WIDTHS:
        draw = {slot: anything(dtype) for slot in range(3)}
        assert "matmul.int_ref" in check_op(
            *(engine, MatMul(transpose_b=True), (2, 3, 7), (5, 7), (5,)),
            dtype=dtype,
            draw=draw,
            families=["normal"],
        )


@pytest.mark.opencl
def test_means_are_rounded_towards_zero_and_do_not_overflow(engine):
    for dtype in WIDTHS:
        draw = {0: anything(dtype)}
        assert "reduce.int_ref" in check_op(engine, Reduce("mean", (1,)), (3, 7), dtype=dtype, draw=draw)
    check_op(engine, Reduce("mean", (1,)), (3, 1), dtype=DType.I8, draw={0: anything(DType.I8)})
    for function in ("max", "min"):
        check_op(engine, Reduce(function, (1,)), (3, 5), dtype=DType.BOOL)


@pytest.mark.opencl
def test_the_nearest_pixels_are_picked_as_they_are(engine):
    resize = Resize("nearest", "asymmetric", "floor", shape=(1, 2, 7, 9), scales=(1.0, 1.0, 7 / 5, 9 / 6))
    for dtype in (*WIDTHS, DType.BOOL):
        draw = {} if dtype is DType.BOOL else {0: anything(dtype)}
        assert "resize.ref" in check_op(engine, resize, (1, 2, 5, 6), dtype=dtype, draw=draw)


@pytest.mark.opencl
def test_the_largest_byte_of_a_window_is_exact(engine):
    pooling = Pooling("max", (2, 3), (1, 2), (1, 1), ((1, 1), (1, 1)))
    for dtype in (DType.I8, DType.U8):
        assert "pooling.ref" in check_op(engine, pooling, (2, 3, 7, 8), dtype=dtype, draw={0: anything(dtype)})


@pytest.mark.opencl
def test_exponents_of_any_integer_type(engine):
    small = {0: lambda rng, shape: rng.integers(0, 9, shape), 1: lambda rng, shape: rng.integers(0, 5, shape)}
    for base, exponent in ((DType.I32, DType.I64), (DType.I64, DType.I8), (DType.U8, DType.U64)):
        check_op(engine, Eltwise("pow"), (5, 7), (7,), dtype=(base, exponent), draw=small)
    # 16 ulps of the power.
    small[0] = lambda rng, shape: rng.uniform(0.5, 2, shape)
    check_op(engine, Eltwise("pow"), (5, 7), (7,), dtype=(DType.F32, DType.U64), draw=small, ulps=32)


@pytest.mark.opencl
def test_updates_of_bools_are_joined_as_bools(engine):
    places = {1: lambda rng, shape: rng.integers(0, 3, shape)}
    types = (DType.BOOL, DType.I64, DType.BOOL)
    for reduction in ("add", "mul", "max", "min"):
        scatter = ScatterElements(0, reduction)
        assert "scatter_elements.ref" in check_op(engine, scatter, (3, 4), (5, 4), (5, 4), dtype=types, draw=places)


@pytest.mark.opencl
def test_parameters_and_places_of_another_type_than_x(engine):
    batch = BatchNormalization(2.0**-10)

    def size(x, f, b, m, v):
        f, b, m, v = (each[:, None] for each in (f, b, m, v))
        return np.abs(x - m) * np.abs(f) / np.sqrt(v) + np.abs(b)

    draw = {4: lambda rng, shape: rng.uniform(0.25, 4, shape)}
    half, single, brain = DType.F16, DType.F32, DType.BF16
    for types in ((half, single, single, single, single), (single, half, half, brain, brain)):
        # As of one type: sum 1/2, root 6, division 5, difference, product and sum 1.
        check_op(engine, batch, (2, 5, 7), *[(5,)] * 4, dtype=types, ulps=14, scale=size, draw=draw)
    sample = GridSample("nearest", "border", True)
    places = {1: lambda rng, shape: rng.integers(-9, 10, shape) / 8}
    found = check_op(engine, sample, (1, 2, 5, 6), (1, 3, 4, 2), dtype=(half, single), draw=places)
    assert "grid_sample.ref" in found
