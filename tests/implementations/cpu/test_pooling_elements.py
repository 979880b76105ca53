"""Maxima of windows of elements of several types: windows that stand apart, overlap, and reach beyond the input."""

from math import prod

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.pooling import Pooling
from tests.support.check_op import check_op

pytestmark = pytest.mark.opencl

PROBLEMS = [
    ((2, 3, 9, 530), Pooling("max", (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)))),
    ((1, 2, 11, 40), Pooling("max", (2, 2), (1, 1), (1, 1), ((0, 0), (0, 0)))),
    ((1, 2, 13, 37), Pooling("max", (3, 2), (3, 3), (2, 4), ((2, 0), (1, 2)), ceil_mode=True)),
    ((1, 1, 2, 3), Pooling("max", (5, 4), (1, 2), (1, 1), ((4, 2), (3, 3)))),
    ((3, 2, 70), Pooling("max", (4,), (5,), (1,), ((0, 0),))),
    ((2, 2, 7, 5, 37), Pooling("max", (3, 2, 3), (2, 1, 2), (2, 3, 1), ((2, 1), (1, 1), (1, 0)))),
    ((1, 3, 3, 4, 19), Pooling("max", (2, 3, 2), (2, 2, 1), (1, 1, 1), ((0, 0), (1, 2), (0, 0)), ceil_mode=True)),
]


@pytest.mark.parametrize(("shape", "primitive"), PROBLEMS, ids=str)
def test_maxima_of_windows_are_exact(engine, shape, primitive):
    for dtype in (DType.F64, DType.F16, DType.I8, DType.U8, DType.F32):
        only = "pooling.planes" if dtype == DType.F32 else "pooling.elements"
        if dtype.floating:
            odd = lambda rng, of: rng.choice([np.nan, np.inf, -np.inf, 1.0, -2.0], of, p=[0.02, 0.02, 0.4, 0.28, 0.28])  # noqa: E731
        else:
            least, most = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
            odd = lambda rng, of, a=least, b=most: rng.integers(a, b + 1, of)  # noqa: E731
        for draw in (odd, lambda rng, of: rng.integers(0, 100, of)):
            found = check_op(engine, primitive, shape, dtype=dtype, draw={0: draw}, families=("normal",), only=[only])
            assert found == {only: 0.0}, dtype


CHANNELS = [
    ((2, 1, 9, 7, 149), Pooling("max", (3, 3, 1), (2, 2, 1), (1, 1, 1), ((1, 1), (1, 1), (0, 0)))),
    ((1, 2, 5, 6, 19), Pooling("max", (2, 3, 1), (3, 1, 1), (2, 2, 1), ((2, 0), (3, 3), (0, 0)), ceil_mode=True)),
    ((1, 1, 2, 3, 64), Pooling("max", (5, 4, 1), (1, 2, 1), (1, 1, 1), ((4, 2), (3, 3), (0, 0)))),
]


@pytest.mark.parametrize(("shape", "primitive"), CHANNELS, ids=str)
def test_maxima_of_bytes_with_channels_behind_them_are_exact(engine, shape, primitive):
    for dtype in (DType.I8, DType.U8):
        least, most = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
        for high in (most + 1, least + 5):
            draw = {0: lambda rng, of, a=least, b=high: rng.integers(a, b, of)}
            found = check_op(engine, primitive, shape, dtype=dtype, draw=draw, families=("normal",))
            assert found["pooling.channels"] == 0


WINDOWS = [
    ((1, 2, 4, 9, 37), Pooling("average", (3, 2, 3), (2, 1, 2), (1, 2, 1), ((1, 1), (1, 0), (1, 1)))),
    ((2, 1, 5, 6, 20), Pooling("average", (2, 3, 2), (1, 2, 1), (1, 1, 3), ((1, 0), (1, 1), (2, 2)), ceil_mode=True)),
    ((1, 3, 12, 53), Pooling("average", (5, 4), (3, 3), (1, 1), ((2, 2), (1, 3)), count_include_pad=True)),
    ((1, 3, 70), Pooling("average", (6,), (5,), (1,), ((3, 1),), ceil_mode=True, count_include_pad=True)),
    ((1, 2, 3, 4, 5), Pooling("max", (2, 3, 2), (1, 2, 2), (2, 1, 1), ((1, 1), (1, 2), (1, 0)))),
]


@pytest.mark.parametrize(("shape", "primitive"), WINDOWS, ids=str)
def test_windows_of_up_to_three_axes_are_within_the_bound_of_their_sum(engine, shape, primitive):
    # A rounding an element, and the quotient's, of sums below elements * max |x|.
    ulps = 0 if primitive.function == "max" else (prod(primitive.kernel) + 1) / 2
    found = check_op(engine, primitive, shape, ulps=ulps, scale=lambda x: np.abs(x).max(), only=["pooling.planes"])
    assert {*found} == {"pooling.planes"}
