"""Softmax of doubles: lines of more than a run, columns side by side, neighbouring axes, NaN and infinities."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.softmax import Softmax
from tests.support.check_op import FAMILIES, check_op

pytestmark = pytest.mark.opencl

PROBLEMS = [
    ((3, 1100), (1,)),
    ((2, 70, 5), (1,)),
    ((40, 300), (0,)),
    ((2, 3, 4, 130), (1, 2)),
    ((7,), (0,)),
    ((401, 3), (1,)),
    ((70, 15), (1,)),
    ((4, 1), (1,)),
]
ODD = {
    **FAMILIES,
    "the last above all": lambda _, shape: np.append(np.zeros(np.prod(shape) - 1), 1000.0).reshape(shape),
    "rising": lambda rng, shape: np.sort(rng.uniform(-700, 700, shape)),
    "some are left out": lambda rng, shape: np.where(rng.random(shape) < 0.3, -np.inf, rng.standard_normal(shape)),
    "odd": lambda rng, shape: np.where(rng.random(shape) < 0.01, rng.choice([np.nan, np.inf], shape), 1.0),
}


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("shape", "axes"), PROBLEMS, ids=str)
def test_doubles_are_within_the_bound(engine, shape, axes, log):
    count = int(np.prod([shape[a] for a in axes]))
    primitive = Softmax(axes, log)

    def size(x):
        with np.errstate(all="ignore"):
            (y,) = primitive.reference(x)
        return np.nan_to_num(np.maximum(np.abs(y), 1.0 if log else 2.0**-1022), posinf=1.0)

    # x - max is rounded alike here and in the reference. In u = 2^-53, half the unit, of both sides: 4 and 2
    # of the exponential, as many of the sum's terms, its at most `count` additions, 2 and 1 of the quotient; a
    # logarithm of at most log(count) is off by 3 and 2 of it, the result by 1 each.
    roundings = 4 + 2 + 4 + 2 + 2 * count + (5 * np.log(count) + 2 if log else 3)
    with np.errstate(invalid="ignore"):
        found = check_op(
            engine, primitive, shape, dtype=DType.F64, families=ODD, ulps=roundings / 2, scale=size,
            only=["softmax.doubles"],
        )  # fmt: skip
    assert "softmax.doubles" in found
