"""Indices of extrema of elements of any type: along and across runs, among equals, of NaN and of least integers."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.arg import ArgExtremum
from tests.support.check_op import check_op

pytestmark = pytest.mark.opencl

PROBLEMS = [((1300,), 0), ((3, 515), 1), ((9, 530), 0), ((2, 7, 5), 1), ((4, 1), 1), ((530, 6), 1), ((2, 600, 3), 1)]


def _specials(rng, shape, dtype):
    """Return few different elements, the least and greatest of the type among them, of floats zeros of both signs."""
    if dtype.floating:
        return rng.choice([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf], shape)
    limits = np.iinfo(dtype.numpy)
    return rng.choice(np.array([limits.min, limits.min + 1, 0, limits.max - 1, limits.max], dtype.numpy), shape)


@pytest.mark.parametrize("smallest", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("shape", "axis"), PROBLEMS)
def test_the_first_or_last_of_the_best_is_found(engine, shape, axis, last, smallest):
    def draws(dtype):
        yield {0: lambda rng, of: _specials(rng, of, dtype)}
        yield {0: lambda rng, of: np.sort(rng.integers(0, 100, of), axis)}
        yield {0: lambda rng, of: np.full(of, _specials(rng, (1,), dtype))}
        if dtype.floating:
            yield {0: lambda rng, of: np.where(rng.random(of) < 0.01, np.nan, rng.standard_normal(of))}

    for dtype in (DType.F32, DType.F16, DType.F64, DType.I64, DType.I32, DType.I16, DType.I8, DType.U32, DType.U8):
        for draw in draws(dtype):
            found = check_op(
                engine, ArgExtremum(smallest, axis, True, last), shape, dtype=dtype, draw=draw,
                families=("normal",), only=["arg.elements"],
            )  # fmt: skip
            assert found == {"arg.elements": 0.0}, dtype
