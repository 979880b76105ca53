"""Means of bytes: every kernel against the reference, and what is refused."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.byte_mean import ByteMean
from tests.support.check_op import check_op


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.U8, DType.I8])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((2, 3, 9, 7), (2, 4)),
        ((2, 3, 5, 8), (1, 4)),
        ((2, 5, 3, 150), (1, 3)),
        ((3, 4, 31), (0, 1)),
        ((1, 2, 64), (1, 2)),
    ],
)
def test_every_implementation_sums_exactly(shape, axes, dtype, engine, gpu_engine):
    least, most = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
    for keepdims, low in ((True, least), (False, most - 3)):
        mean = ByteMean(*axes, 0.03, 100, keepdims)
        draw = {0: lambda rng, of, a=low, b=most: rng.integers(a, b + 1, of)}
        for each in (engine, gpu_engine):
            # Exact sums, then the same two roundings.
            found = check_op(each, mean, shape, dtype=dtype, draw=draw, families=("normal",))
            assert ("byte_mean.runs" in found) == (each.device.info.kind == "cpu")


def test_reference_is_the_mean_of_what_bytes_stand_for(rng):
    x = rng.integers(-128, 128, (2, 7, 5)).astype(np.int8)
    (got,) = ByteMean(1, 2, 0.25, -3).reference(x)
    np.testing.assert_allclose(got, ((x.astype(np.float64) + 3) * 0.25).mean(1, keepdims=True), rtol=2**-22)


@pytest.mark.parametrize(("dtype", "shape"), [(DType.I32, (2, 3)), (DType.U8, (2, 1 << 24)), (DType.U8, (2, 0))])
def test_what_does_not_fit_is_refused(dtype, shape):
    with pytest.raises(ShapeError, match="bytes a mean"):
        ByteMean(1, 2, 0.5, 0).infer([Layout(dtype, shape)])
