"""Places of what is not zero, as NumPy finds them."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.non_zero import NonZero


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I64, DType.BOOL], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (3, 4, 5), (2, 3, 1, 4)])
def test_places_are_in_the_order_of_rows(shape, dtype, rng):
    x = np.asarray(rng.integers(0, 2, shape)).astype(dtype.numpy)
    (found,) = NonZero().reference(x)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.array(np.nonzero(np.atleast_1d(x != 0)), np.int64))


def test_a_nan_is_not_zero_and_a_negative_zero_is():
    (found,) = NonZero().reference(np.array([[0.0, np.nan], [-0.0, -1e-45]], np.float32))
    np.testing.assert_array_equal(found, [[0, 1], [1, 1]])
