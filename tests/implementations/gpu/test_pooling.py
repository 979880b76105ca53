"""Pooling for GPUs on channels in vectors, on a device that is treated as one."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.pooling import Pooling
from tests.support.check_op import check_op
from tests.support.combinations import in_both_types

NAME = "pooling.gpu_vectors"
CASES = {
    "plain": ((2, 8, 9, 7), Pooling("max", (2, 2), (2, 2))),
    "padded": ((1, 12, 8, 9), Pooling("max", (3, 3), (2, 2), pads=((1, 1), (1, 1)))),
    "dilated": ((1, 4, 11, 10), Pooling("max", (3, 2), (1, 2), (2, 3), ((2, 0), (0, 1)))),
    "ceil": ((1, 24, 7, 7), Pooling("average", (3, 3), (2, 2), pads=((1, 0), (0, 1)), ceil_mode=True)),
    "counting_pads": (
        (2, 8, 6, 7),
        Pooling("average", (3, 4), (1, 2), pads=((1, 2), (0, 1)), ceil_mode=True, count_include_pad=True),
    ),
    "one_axis": ((2, 8, 13), Pooling("average", (3,), (2,), pads=((1, 1),))),
}


@pytest.mark.opencl
@in_both_types("case", CASES)
def test_windows_are_within_the_bound_of_their_sum_in_both_formats(case, dtype, gpu_engine):
    shape, primitive = CASES[case]
    taps = int(np.prod(primitive.kernel))
    absolute = primitive.bind([_layout(shape)], [None]).primitive
    # A maximum is exact; an average of n numbers rounds n times and once for the quotient.
    ulps = 0 if primitive.function == "max" else taps + 1
    scale = lambda x: absolute.reference(np.abs(x))[0]  # noqa: E731
    found = check_op(gpu_engine, primitive, shape, ulps=ulps, scale=scale, dtype=dtype, only=[NAME])
    assert NAME in found


@pytest.mark.opencl
def test_what_is_fused_reads_vectors(gpu_engine):
    shape, primitive = CASES["plain"]
    fused = [(Eltwise("mul"), [(8, 1, 1)], 0), (Activation("relu"), [], 0)]
    # One product.
    scale = lambda x, m: np.abs(primitive.bind([_layout(shape)], [None]).primitive.reference(x)[0] * m)  # noqa: E731
    check_op(gpu_engine, primitive, shape, ulps=1, scale=scale, fused=fused, only=[NAME])


def _layout(shape):
    from clgraph.core.layout import Layout

    return Layout(DType.F32, shape)
