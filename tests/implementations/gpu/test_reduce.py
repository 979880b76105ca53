"""Reductions for GPUs on channels in vectors, on a device that is treated as one."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reduce import Reduce
from tests.ops.test_reduce import BOUNDS
from tests.support.check_op import check_op

NAME = "reduce.gpu_vectors"


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
@pytest.mark.parametrize("function", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("shape", [(2, 8, 5, 7), (1, 132, 3, 1), (3, 64, 11), (2, 4, 1, 2)])
def test_pixels_are_within_the_bound_of_their_sum_in_both_formats(shape, function, dtype, gpu_engine):
    ulps, scale = BOUNDS[function]
    axes = tuple(range(2, len(shape)))
    for keepdims in (True, False):
        primitive = Reduce(function, axes, keepdims)
        size = None if scale is None else lambda x, p=primitive: scale(lambda v: p.reference(v)[0], x)
        pixels = int(np.prod(shape[2:]))
        found = check_op(gpu_engine, primitive, shape, ulps=ulps(pixels), scale=size, dtype=dtype, only=[NAME])
        assert NAME in found


@pytest.mark.opencl
def test_what_is_fused_reads_vectors(gpu_engine):
    primitive = Reduce("mean", (2, 3))
    fused = [(Eltwise("add"), [(20, 1, 1)], 0), (Eltwise("mul"), [(2, 20, 1, 1)], 0), (Activation("relu"), [], 0)]
    # The mean of 63 pixels, an addition and a product.
    scale = lambda x, b, m: (primitive.reference(np.abs(x))[0] + np.abs(b)) * np.abs(m)  # noqa: E731
    check_op(gpu_engine, primitive, (2, 20, 9, 7), ulps=63 + 5 + 2, scale=scale, fused=fused, only=[NAME])


@pytest.mark.opencl
def test_not_a_number_is_larger_than_any(gpu_engine):
    def draw(rng, shape):
        x = rng.standard_normal(shape)
        x[0, 3, 2, 1] = np.nan
        return x

    for function in ("max", "min"):
        check_op(gpu_engine, Reduce(function, (2, 3)), (1, 8, 5, 3), draw={0: draw}, families=["normal"], only=[NAME])
