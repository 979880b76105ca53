"""Logarithms of sums of exponentials of integers: lines of less and of more than a run, every type, far apart."""

import numpy as np
import pytest

from clgraph.implementations.cpu.reduce_exponentials import INTEGERS
from clgraph.ops.reduce import Reduce
from tests.support.check_op import check_op

pytestmark = pytest.mark.opencl

PROBLEMS = [
    ((3, 1100), (1,)),
    ((530, 7), (1,)),
    ((2, 5, 9, 4), (2, 3)),
    ((512,), (0,)),
    ((4, 1), (1,)),
    ((2, 600), (0, 1)),
]


def near(rng, shape, dtype):
    """Return integers whose exponentials all count; no sum of them is near a power of e."""
    return rng.integers(1, 9, shape).astype(dtype.numpy)


def far(rng, shape, dtype):
    """Return integers of which one alone counts: the others are at least 100 below it."""
    low = 0 if dtype.numpy.kind == "u" else -100
    x = rng.integers(low, low + 9, shape)
    x.reshape(-1)[::3] += 120
    return x.astype(dtype.numpy)


def ends(rng, shape, dtype):
    """Return the least integer, and once in seven the greatest, which alone counts."""
    limits = np.iinfo(dtype.numpy if dtype.itemsize < 8 else np.int32)
    x = np.full(shape, limits.min if dtype.numpy.kind == "i" else 0, dtype.numpy)
    x.reshape(-1)[::7] = limits.max
    return x


@pytest.mark.parametrize("draw", [near, far, ends])
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize(("shape", "axes"), PROBLEMS, ids=str)
def test_every_type_of_integers_is_reduced_as_numpy_does(engine, shape, axes, keepdims, draw):
    for dtype in sorted(INTEGERS, key=str):
        found = check_op(
            engine, Reduce("log_sum_exp", axes, keepdims), shape, dtype=dtype, families=("normal",),
            draw={0: lambda rng, of, d=dtype: draw(rng, of, d)}, only=["reduce.exponentials"],
        )  # fmt: skip
        assert found == {"reduce.exponentials": 0.0}, dtype
