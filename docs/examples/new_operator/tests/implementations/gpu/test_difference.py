"""Differences for GPUs, on a device that is treated as one."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.difference import Difference
from clgraph.ops.eltwise import Eltwise
from tests.support.check_op import check_op

NAME = "difference.gpu_vectors"


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
@pytest.mark.parametrize(("shape", "axis"), [((3, 4), 0), ((2, 9, 16), 1), ((2, 5, 3, 20), 1)])
def test_vectors_round_once(shape, axis, dtype, gpu_engine):
    assert NAME in check_op(gpu_engine, Difference(axis), shape, ulps=1, dtype=dtype)


@pytest.mark.opencl
def test_an_operand_is_broadcast_along_the_vectors(gpu_engine):
    # The difference is rounded, then the sum of it and the operand.
    scale = lambda x, b: np.abs(Difference(1).reference(x)[0]) + np.abs(b)  # noqa: E731
    fused = [(Eltwise("add"), [(9, 1)], 0)]
    check_op(gpu_engine, Difference(1), (2, 9, 8), ulps=2, scale=scale, fused=fused, only=[NAME])
