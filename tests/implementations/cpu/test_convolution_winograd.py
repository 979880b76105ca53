"""Winograd tiles against float64: every size, pad, channel count, blocking and list of post-operations."""

import numpy as np
import pytest

import clgraph.implementations.cpu.winograd_sizes as tiles
from clgraph.core.format import feature_blocked
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.blocks import BLOCKED, widths
from clgraph.implementations.cpu.convolution_winograd import ConvWinograd
from clgraph.implementations.cpu.winograd_blocking import Blocking, best_blocking
from clgraph.ops.convolution import Convolution
from clgraph.ops.winograd_weights import positions_of, weight_matrix
from clgraph.selector.costs import Rates
from clgraph.selector.query import DeviceInfo, Query
from tests.support.run_tiles import POSTS, any_halo, check_tiles, post_list
from tests.support.winograd import GAINS, ROUNDINGS, input_matrix, output_matrix, winograd

CHANNELS = (1, 16, 17, 23, 33, 48, 64, 71, 129, 200)


@pytest.mark.parametrize("stride", [1, 2])
def test_the_matrices_make_a_convolution(rng, stride):
    x, w = rng.standard_normal((2, 3, 11, 8)), rng.standard_normal((4, 3, 3, 3))
    pads = ((1, 2), (0, 1))
    (expected,) = Convolution((stride, stride), (1, 1), pads).reference(x, w)
    np.testing.assert_allclose(winograd(x, w, pads, stride=stride), expected, atol=1e-12)


@pytest.mark.parametrize("stride", [1, 2])
def test_the_worst_gain_is_the_one_in_the_kernels_header(stride):
    sums = np.abs(weight_matrix(stride)).sum(1) * np.abs(input_matrix(stride)).sum(1)
    assert GAINS[stride] - 0.1 < (np.abs(output_matrix(stride)) @ sums).max() <= GAINS[stride]


def any_blocking(rng, simd, outputs, count, stride):
    """Return a blocking that selection might never choose: all of them must be right."""
    families = [nb for nb in ((1, 2, 4) if simd >= 16 else (1, 2)) if -(-outputs // 16) % nb == 0]
    nb = int(rng.choice(families))
    size = int(rng.choice(widths(simd, BLOCKED, 1, nb)))
    blocks = -(-count // size)
    each = min(int(rng.integers(1, 5)), blocks)
    return Blocking(bool(rng.integers(2)), nb, -(-outputs // 16) // nb, size, blocks, each, 0.0, positions_of(stride))


def check_winograd(
    engine, monkeypatch, seed, channels, outputs, shape=None, *, stride=1, dilation=1, chosen=False, posts=None
):
    rng = np.random.default_rng(seed)
    pads = tuple((int(a), int(b)) for a, b in rng.integers(0, 4, (2, 2)))
    if shape is None:
        sides = rng.integers(1, 71 if channels * outputs < 5000 else 30, 2)
        sides[0] += (seed - sides[0]) % 4
        shape = (
            int(rng.integers(1, 4)),
            *(max(int(s), 2 * dilation + 1 - sum(p)) for s, p in zip(sides, pads, strict=True)),
        )
    arrays = [
        rng.standard_normal(s).astype(np.float32)
        for s in ((shape[0], channels, *shape[1:]), (outputs, channels, 3, 3), (outputs,))[: 2 + int(rng.integers(2))]
    ]
    arity = len(arrays)
    primitive = Convolution((stride, stride), (dilation, dilation), pads)
    out = primitive.infer([Layout.of(a) for a in arrays])[0].shape
    size = winograd(*(a.astype(np.float64) for a in arrays[:2]), pads, magnitude=True, stride=stride, dilation=dilation)
    fused, slope = post_list(POSTS[seed % len(POSTS)] if posts is None else posts, out, arrays, rng)
    if not chosen:
        edge = 4 // stride * dilation
        count = shape[0] * dilation**2 * -(-out[2] // edge) * -(-out[3] // edge)
        blocking = any_blocking(rng, engine.info.simd, outputs, count, stride)
        monkeypatch.setattr(tiles, "best_blocking", lambda *_: blocking)
    # The header's bound, n and so many roundings, and second-order terms; a bias, a residual and each operation of the
    # list add a rounding or a few of the value they make.
    check_tiles(
        engine,
        ConvWinograd,
        primitive,
        arrays,
        slope * (channels + ROUNDINGS[stride] + 1 + 20),
        arity=arity,
        size=size + 4,
        constant=tuple(range(1, arity)),
        fused=fused,
        out_halo=any_halo(rng, 4),
    )


@pytest.mark.parametrize(("channels", "cached", "fused"), [(64, 2e10, True), (96, 2e10, False), (96, 1e12, True)])
def test_tickets_read_all_weights_where_a_core_keeps_them_or_gets_them_fast(channels, cached, fused):
    """A core keeps the weights of 64 channels, 0.6 MB, and not those of 96, 1.3 MB."""
    device = DeviceInfo("pocl:0", simd=16, workers=2, rates=Rates(1.8e11, ((2, 2.6e10),), cached=cached))
    tiles = 100
    assert best_blocking(device, channels, channels, tiles, 2 * 4 * channels * 16 * tiles).fused == fused


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(40))
def test_winograd_convolutions_agree_with_float64(engine, monkeypatch, seed):
    rng = np.random.default_rng(2000 + seed)
    channels, outputs = (int(CHANNELS[i]) for i in rng.integers(0, len(CHANNELS), 2))
    check_winograd(engine, monkeypatch, seed, channels, outputs, stride=1 + seed % 3 // 2)


@pytest.mark.opencl
@pytest.mark.parametrize("height", range(1, 9))
def test_every_remainder_of_the_tiles_is_right(engine, monkeypatch, height):
    for width in range(1, 9):
        check_winograd(engine, monkeypatch, 8 * height + width, 16, 33, (2, height + 2, width + 2), posts="add clip")


@pytest.mark.opencl
@pytest.mark.parametrize("height", range(1, 5))
def test_every_remainder_of_the_tiles_of_stride_2_is_right(engine, monkeypatch, height):
    for width in range(1, 5):
        shape = (2, height + 2, width + 2)
        check_winograd(engine, monkeypatch, 4 * height + width, 16, 33, shape, stride=2, posts="add clip")


@pytest.mark.opencl
@pytest.mark.parametrize(
    "shape", [(64, 64, 56, 1), (128, 128, 28, 1), (256, 256, 14, 1), (64, 24, 30, 1), (128, 128, 28, 2)]
)
def test_the_chosen_blockings_agree_with_float64(engine, monkeypatch, shape):
    channels, outputs, side, stride = shape
    check_winograd(
        engine, monkeypatch, side, channels, outputs, (1, side, side), stride=stride, chosen=True, posts="add relu"
    )


@pytest.mark.opencl
@pytest.mark.parametrize(("dilation", "side"), [(2, 9), (2, 28), (3, 13), (5, 11), (12, 33)])
def test_the_phases_of_dilated_windows_agree_with_float64(engine, monkeypatch, dilation, side):
    for seed, posts in enumerate(("", "add clip", "gate")):
        check_winograd(engine, monkeypatch, seed, 33, 48, (2, side, side + 3), dilation=dilation, posts=posts)


@pytest.mark.opencl
def test_a_batch_of_small_maps_shares_blocks_of_tiles(engine, monkeypatch):
    check_winograd(engine, monkeypatch, 5, 33, 48, (7, 6, 6), chosen=True)


def refusal(kernel=(3, 3), strides=(1, 1), dilations=(1, 1), groups=1, constant=(1,), halo=(2, 4)):
    layouts = [Layout.of(np.zeros(s, np.float32)) for s in ((1, 32, 11, 9), (32, 32 // groups, *kernel))]
    primitive, blocked = Convolution(strides, dilations, ((1, 1), (2, 0)), groups), feature_blocked(4)
    (out,) = primitive.infer(layouts)
    x = layouts[0].with_format(blocked).with_halo(((0, 0), (0, 0), (1, halo[0]), (2, halo[1])))
    q = Query(primitive, (x, layouts[1]), (out.with_format(blocked),), DeviceInfo(), 2, (), frozenset(constant))
    return ConvWinograd.refusal(q)


def test_what_the_tiles_do_not_compute_is_refused_with_the_reason():
    # 11 rows and 9 pixels of result are 3 by 3 tiles, which read 14 by 14 pixels.
    assert refusal(halo=(2, 3)) is None
    assert "zeros around its input" in str(refusal(halo=(1, 3)))
    assert "zeros around its input" in str(refusal(halo=(2, 2)))
    assert "3x3 windows" in str(refusal(kernel=(5, 5)))
    assert "strides of 1 and 2" in str(refusal(strides=(2, 1)))
    assert "strides of 1 and 2" in str(refusal(strides=(3, 3)))
    assert "the same both ways" in str(refusal(dilations=(1, 2)))
    assert "without groups" in str(refusal(groups=2))
    # With stride 2 they are 6 by 5 pixels, 3 by 3 tiles, which read 13 by 13.
    assert refusal(strides=(2, 2), halo=(1, 2)) is None
    assert "zeros around its input" in str(refusal(strides=(2, 2), halo=(0, 2)))
    assert "zeros around its input" in str(refusal(strides=(2, 2), halo=(1, 1)))
    assert "constant weights" in str(refusal(constant=()))
