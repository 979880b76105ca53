"""Running products."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.cumulative_product import CumulativeProduct
from tests.support.check_op import check_op


@pytest.mark.opencl
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_implementation_is_within_the_bound_of_its_products(reverse, exclusive, engine):
    draw = {0: lambda rng, of: rng.uniform(-1.2, 1.2, of)}
    whole = {0: lambda rng, of: rng.integers(-3, 4, of)}
    for axis, shape in ((0, (19, 3)), (1, (2, 9, 4)), (1, (3, 7))):
        primitive = CumulativeProduct(axis, exclusive, reverse)
        for dtype in (DType.F32, DType.F16):
            # One rounding a factor, relative to the product; of halves one of 2^-11 more, of numbers down to 2^-24.
            more = 2.0**13 if dtype == DType.F16 else 0
            check_op(
                engine, primitive, shape, ulps=shape[axis] + more, dtype=dtype, draw=draw, families=("normal",)
            )  # fmt: skip
        check_op(engine, primitive, shape, dtype=DType.I64, draw=whole, families=("normal",))


def test_the_element_itself_is_left_out_where_that_is_asked_for():
    x = np.array([2, 3, 4, 5])
    for exclusive, reverse, want in (
        (False, False, [2, 6, 24, 120]),
        (True, False, [1, 2, 6, 24]),
        (False, True, [120, 60, 20, 5]),
        (True, True, [60, 20, 5, 1]),
    ):
        np.testing.assert_array_equal(CumulativeProduct(0, exclusive, reverse).reference(x)[0], want)
