"""Running sums and products of elements of any type: lines and columns of more than a run, every direction."""

import itertools

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cumulate_elements import ANY_NUMBERS
from clgraph.ops.cumulative_product import CumulativeProduct
from clgraph.ops.cumulative_sum import CumulativeSum
from tests.support.check_op import check_op
from tests.support.features import needs

pytestmark = pytest.mark.opencl

SHAPES = (
    ((2, 1100), 1),
    ((3, 7, 530), 1),
    ((5, 2, 3), 0),
    ((4,), 0),
    ((700, 3), 1),
    ((9, 64), 1),
    ((1100, 4), 0),
    ((3, 70, 8), 1),
    ((90, 5, 2), 1),
    ((75, 9), 0),
)
WAYS = list(itertools.product((False, True), repeat=2))


@pytest.mark.parametrize("kind", [CumulativeSum, CumulativeProduct])
def test_integers_are_summed_up_as_numpy_does(engine, kind):
    name = f"{kind.kind}.elements"
    for dtype in sorted((d for d in ANY_NUMBERS.dtypes if not d.floating), key=str):
        draw = {0: lambda rng, of, d=dtype: rng.integers(0, 100, of).astype(d.numpy)}
        for (shape, axis), (exclusive, reverse) in itertools.product(SHAPES, WAYS):
            primitive = kind(axis, exclusive, reverse)
            found = check_op(engine, primitive, shape, dtype=dtype, draw=draw, families=("normal",), only=[name])
            assert found == {name: 0.0}, (primitive, dtype)


@pytest.mark.parametrize("dtype", [DType.F16, DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("kind", [CumulativeSum, CumulativeProduct])
def test_floats_keep_the_bound(engine, kind, dtype):
    if dtype == DType.F64:
        needs(engine, "fp64")
    for (shape, axis), (exclusive, reverse) in itertools.product(SHAPES, WAYS):
        primitive, inclusive = kind(axis, exclusive, reverse), kind(axis, False, reverse)
        # Factors so near 1 that no product leaves its range; one rounding an element, and of halves one of 2^-11.
        draw = {0: lambda rng, of: rng.uniform(0.99, 1.01, of)}
        scale = None if kind is CumulativeProduct else lambda x, p=inclusive: p.reference(np.abs(x))[0]
        ulps = shape[axis] + (2.0**13 if dtype == DType.F16 else 0)
        name = f"{kind.kind}.elements"
        check_op(
            engine, primitive, shape, dtype=dtype, ulps=ulps, scale=scale, draw=draw, families=("normal",), only=[name]
        )
