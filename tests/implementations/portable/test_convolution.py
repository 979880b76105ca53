"""Convolutions for GPUs on channels in vectors, on a device that is treated as one."""

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.gpu.local_tiles import best_tile
from clgraph.implementations.gpu.products import ProductSizes
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.query import DeviceInfo
from tests.support.check_op import check_op
from tests.support.combinations import in_both_types

TILED, DEPTHWISE = "convolution.gpu_vectors", "convolution.gpu_depthwise"


def _conv(stride, dilation, pads, groups=1):
    return Convolution(stride, dilation, pads, groups)


CASES = {
    "pointwise": ((2, 20, 5, 7), (36, 20, 1, 1), _conv((1, 1), (1, 1), ((0, 0), (0, 0)))),
    "three_by_three": ((1, 16, 14, 14), (72, 16, 3, 3), _conv((1, 1), (1, 1), ((1, 1), (1, 1)))),
    "few_channels": ((1, 4, 9, 8), (8, 4, 3, 3), _conv((1, 1), (1, 1), ((1, 1), (1, 1)))),
    "strided": ((3, 12, 15, 13), (24, 12, 3, 3), _conv((2, 2), (1, 1), ((1, 1), (1, 1)))),
    "uneven": ((2, 8, 9, 8), (12, 8, 3, 2), _conv((2, 1), (1, 2), ((1, 0), (1, 2)))),
    "groups": ((2, 24, 9, 9), (16, 12, 3, 3), _conv((1, 1), (1, 1), ((1, 1), (1, 1)), 2)),
    "one_axis": ((2, 8, 30), (12, 8, 4), _conv((2,), (3,), ((1, 4),))),
    "large": ((1, 32, 13, 13), (132, 32, 1, 1), _conv((1, 1), (1, 1), ((0, 0), (0, 0)))),
}
DEPTHWISE_CASES = {
    "three_by_three": ((2, 12, 8, 9), (12, 1, 3, 3), _conv((1, 1), (1, 1), ((1, 1), (1, 1)), 12)),
    "blocks_of_eight": ((2, 24, 5, 6), (24, 1, 3, 3), _conv((1, 1), (1, 1), ((1, 1), (1, 1)), 24)),
    "strided": ((1, 16, 11, 10), (16, 1, 5, 5), _conv((2, 2), (1, 1), ((2, 2), (1, 2)), 16)),
    "dilated": ((1, 4, 9, 8), (4, 1, 3, 2), _conv((1, 2), (2, 3), ((2, 0), (1, 2)), 4)),
    "one_axis": ((2, 8, 30), (8, 1, 4), _conv((2,), (3,), ((1, 4),), 8)),
}


def _scale(primitive):
    return lambda x, w, b: primitive.reference(*map(np.abs, (x, w, b)))[0]


@pytest.mark.opencl
@in_both_types("case", CASES)
def test_the_product_is_within_the_bound_of_its_sum_in_both_formats(case, dtype, gpu_engine):
    x, w, primitive = CASES[case]
    found = check_op(
        gpu_engine,
        primitive,
        *(x, w, w[:1]),
        # An ordinary sum of n products and a bias is off by at most n + 1 units.
        ulps=int(np.prod(w[1:])) + 1,
        scale=_scale(primitive),
        constant=(1, 2),
        dtype=dtype,
        only=[TILED],
    )
    assert TILED in found


@pytest.mark.opencl
@in_both_types("case", DEPTHWISE_CASES)
def test_each_channel_is_within_the_bound_of_its_sum_in_both_formats(case, dtype, gpu_engine):
    x, w, primitive = DEPTHWISE_CASES[case]
    check_op(
        gpu_engine,
        primitive,
        *(x, w, w[:1]),
        ulps=int(np.prod(w[1:])) + 1,
        scale=_scale(primitive),
        constant=(1, 2),
        dtype=dtype,
        only=[DEPTHWISE],
    )


@pytest.mark.opencl
@in_both_types("case,name", [("pointwise", TILED), ("uneven", TILED), ("depthwise", DEPTHWISE)])
def test_residual_and_activation_are_fused(case, name, dtype, gpu_engine):
    x, w, primitive = CASES.get(case) or DEPTHWISE_CASES["strided"]
    (shape,) = [layout.shape for layout in primitive.infer([Layout(DType.F32, x), Layout(DType.F32, w)])]
    fused = [(Eltwise("add"), [shape], 1), (Activation("relu"), [], 0), (Eltwise("mul"), [(w[0], 1, 1)], 0)]
    # The sum and the residual add up to the scale; the addition and the product round once each.
    scale = lambda x, w, b, r, m: (_scale(primitive)(x, w, b) + np.abs(r)) * np.abs(m)  # noqa: E731
    length = int(np.prod(w[1:])) + 3
    check = {"scale": scale, "constant": (1, 2), "fused": fused, "dtype": dtype}
    check_op(gpu_engine, primitive, x, w, w[:1], ulps=length, only=[name], **check)


@pytest.mark.opencl
@pytest.mark.parametrize("units", [1, 1000])
def test_every_tile_size_gives_the_sums(units, gpu_engine, monkeypatch):
    """Few units want large tiles, many small ones; each shape of tile is made, not each chosen."""
    import clgraph.implementations.gpu.convolution_vectors as module
    from clgraph.implementations.gpu.local_tiles import LocalTile
    from tests.support.planted import own_classes

    x, w, primitive = CASES["large"]
    for rows in (1, 2):
        for columns in (1, 2):
            tile = LocalTile(rows, columns, 1e-6 * units)
            monkeypatch.setattr(module, "_tile", lambda q, tile=tile: tile)
            with own_classes():
                check_op(gpu_engine, primitive, x, w, ulps=33, scale=_scale_of(primitive), constant=(1,), only=[TILED])


def _scale_of(primitive):
    return lambda x, w: primitive.reference(np.abs(x), np.abs(w))[0]


def test_the_tile_fills_the_device():
    gpu = DeviceInfo("gpu:0", "gpu", compute_units=132, flops=6e13, local_bytes=48 << 10)
    sizes = lambda *a, device=gpu: best_tile(device, ProductSizes(*a)).sizes  # noqa: E731
    assert sizes(64 * 56 * 56, 256, 576, 1) == (128, 128)
    assert sizes(49, 512, 4608, 1) == (64, 64)
    assert sizes(64 * 56 * 56, 64, 576, 1) == (128, 64)
    assert sizes(64 * 56 * 56, 256, 576, 1, device=replace(gpu, local_bytes=9 << 10)) == (64, 64)
