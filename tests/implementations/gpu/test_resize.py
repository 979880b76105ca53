"""Interpolation for GPUs on channels in vectors, on a device that is treated as one."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import channels_last
from clgraph.core.layout import Layout
from clgraph.implementations.gpu.resize import ResizeGpuVectors
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.resize import Resize
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op
from tests.support.combinations import in_both_types

NAME = "resize.gpu_vectors"
# Channels in vectors of 4 and of 8, a larger and a smaller side, one axis.
SIZES = [((2, 12, 5, 6), (2, 12, 9, 4)), ((1, 24, 4, 7), (1, 24, 8, 14)), ((2, 8, 6), (2, 8, 15))]


def _resize(mode, shape, size, **more):
    return Resize(mode, shape=size, scales=tuple(n / d for n, d in zip(size, shape, strict=True)), **more)


@pytest.mark.opencl
@in_both_types("shape,size", SIZES)
def test_pixels_are_within_the_bound_of_their_sum_in_both_formats(shape, size, dtype, gpu_engine):
    # A term: two weights rounded, their product and the term: 4 units; sums of 4 and 16 terms. The weights of a cubic
    # add up to at most 1.5 in size along an axis.
    bounds = {"nearest": 0.0, "linear": 4 + 4, "cubic": 1.5**2 * (4 + 16)}
    for mode, ulps in bounds.items():
        scale = (lambda x: np.abs(x).max()) if ulps else None
        found = check_op(
            gpu_engine, _resize(mode, shape, size), shape, ulps=ulps, scale=scale, dtype=dtype, only=[NAME]
        )
        assert NAME in found


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_what_is_fused_reads_vectors(dtype, gpu_engine):
    shape, size = SIZES[1]
    primitive = _resize("nearest", shape, size)
    fused = [(Eltwise("mul"), [(24, 1, 1)], 0), (Activation("relu"), [], 0), (Eltwise("add"), [size], 1)]
    # A product and a sum.
    scale = lambda x, m, r: np.abs(primitive.reference(x)[0] * m) + np.abs(r)  # noqa: E731
    check_op(gpu_engine, primitive, shape, ulps=2, scale=scale, fused=fused, dtype=dtype, only=[NAME])


@pytest.mark.opencl
def test_a_pixel_of_weight_zero_counts_nothing(gpu_engine):
    def draw(rng, shape):
        x = rng.standard_normal(shape)
        x[..., 0] = np.inf
        return x

    # Every second pixel has one tap, and one of weight 0 that names the first column; the first two pixels read it.
    primitive = _resize("linear", (1, 4, 3, 5), (1, 4, 5, 9), coordinates="align_corners")
    scale = lambda x: np.abs(x[..., 1:]).max()  # noqa: E731
    check_op(
        gpu_engine, primitive, (1, 4, 3, 5), ulps=4 + 4, scale=scale, draw={0: draw}, families=["normal"], only=[NAME]
    )


def _refusal(shape, size):
    form = channels_last(4)
    x, y = Layout(DType.F32, shape, form), Layout(DType.F32, size, form)
    return ResizeGpuVectors.refusal(Query(_resize("nearest", shape, size), (x,), (y,), DeviceInfo(kind="gpu"), 1))


def test_what_it_does_not_compute_is_refused_with_the_reason():
    assert _refusal((1, 8, 3, 4), (1, 8, 6, 8)) is None
    assert "one or two spatial axes" in str(_refusal((1, 8, 3, 4), (1, 16, 6, 8)))
    assert "one or two spatial axes" in str(_refusal((1, 8, 3, 4), (2, 8, 6, 8)))
    assert "multiple of 4 channels" in str(_refusal((1, 6, 3, 4), (1, 6, 6, 8)))
