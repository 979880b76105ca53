"""Tiles that enlarge: interpolation and transposed convolution, against float64."""

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.implementations.cpu.conv_transpose import ConvTransposeFsv16
from clgraph.implementations.cpu.resize import ResizeFsv16
from clgraph.implementations.cpu.resize_map import COORDINATES, RULES
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.resize import Resize
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import any_halo, check_tiles, pose, post_list

LISTS = ("", "relu", "add", "gate")


@pytest.mark.opencl
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("seed", range(8))
def test_interpolation_agrees_with_float64(engine, mode, coordinates, seed):
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 40)), *(int(v) for v in rng.integers(1, 20, 2)))
    out = (*shape[:2], *(int(v) for v in rng.integers(1, 45, 2)))
    if seed % 2:
        out = (*shape[:2], shape[2] * 2, shape[3] * (1 + seed % 4))
    arrays = [rng.standard_normal(shape).astype(np.float32)]
    primitive = (
        Resize(mode, coordinates, list(RULES)[seed % 4], shape=out).bind([Layout.of(arrays[0])], [None]).primitive
    )
    fused, slope = post_list(LISTS[seed % 4], out, arrays, rng)
    # Linear: two roundings of each weight, product and sum along each axis, of pixels below 5.
    bound = slope * 16
    check_tiles(engine, ResizeFsv16, primitive, arrays, bound, arity=1, size=5, fused=fused, out_halo=any_halo(rng, 4))


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(40))
def test_transposed_convolutions_agree_with_float64(engine, seed):
    rng = np.random.default_rng(seed)
    kernel, strides = (tuple(int(v) for v in rng.integers(1, most, 2)) for most in (5, 4))
    dilations = tuple(int(v) for v in rng.integers(1, 3, 2)) if seed % 4 == 0 else (1, 1)
    pads = tuple((int(a), int(b)) for a, b in rng.integers(0, 2, (2, 2)))
    channels, outputs = (int(v) for v in rng.integers(1, 70, 2))
    shape = (int(rng.integers(1, 3)), channels, *(int(v) for v in rng.integers(4, 20, 2)))
    sizes = (shape, (channels, outputs, *kernel), (outputs,))[: 2 + seed % 2]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in sizes]
    arity = len(arrays)
    primitive = ConvTranspose(strides, dilations, pads, tuple(min(s - 1, 1) for s in strides))
    try:
        out = primitive.infer([Layout.of(a) for a in arrays])[0].shape
    except ShapeError:
        pytest.skip("nothing is left of the result")
    (size,) = primitive.reference(*(np.abs(a).astype(np.float64) for a in arrays))
    fused, slope = post_list(LISTS[seed % 4], out, arrays, rng)
    # As many products as channels and taps, a rounding for each further tap, the bias and the list.
    bound = slope * ((channels + 1) * kernel[0] * kernel[1] + 8)
    check_tiles(
        engine,
        ConvTransposeFsv16,
        primitive,
        arrays,
        bound,
        arity=arity,
        size=size + 4,
        constant=tuple(range(1, arity)) if seed % 3 else (),
        fused=fused,
        out_halo=any_halo(rng, 4),
    )


def test_cubic_and_grouped_ones_are_refused():
    x = Layout.of(np.zeros((1, 16, 4, 4), np.float32))
    cubic = Resize("cubic", shape=(1, 16, 8, 8), scales=(1.0, 1.0, 2.0, 2.0))
    assert "cubic" in str(ResizeFsv16.refusal(pose(DeviceInfo(), ResizeFsv16, cubic, [x], arity=1)))
    w = Layout.of(np.zeros((16, 8, 2, 2), np.float32))
    primitive = ConvTranspose((2, 2), (1, 1), ((0, 0), (0, 0)), (0, 0), 2)
    q = pose(DeviceInfo(), ConvTransposeFsv16, primitive, [x, w], arity=2, constant=(1,))
    assert "one group" in str(ConvTransposeFsv16.refusal(q))
