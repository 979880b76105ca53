"""Tiles that work on rows of plain tensors: softmax, layer normalisation, transposes."""

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.implementations.cpu.layer_normalization import NormalizeRows
from clgraph.implementations.cpu.softmax import SoftmaxPlanes, SoftmaxRows
from clgraph.implementations.cpu.transpose import TransposeTiles
from clgraph.implementations.cpu.transpose_planes import TransposePlanes
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.softmax import Softmax
from clgraph.ops.transpose import Transpose
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import check_tiles, pose, post_list, run_tiles

LISTS = ("", "relu", "add", "sigmoid")


def draw_shape(rng, rank, most=(4, 9, 20, 60)):
    return tuple(int(v) for v in rng.integers(1, most[-rank:], rank))


@pytest.mark.opencl
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_softmax_agrees_with_float64(engine, log, seed):
    rng = np.random.default_rng(seed)
    rank = 1 + seed % 4
    shape, first = draw_shape(rng, rank), int(rng.integers(rank))
    arrays = [(rng.standard_normal(shape) * 3).astype(np.float32)]
    fused, slope = post_list(LISTS[seed % 4] if first == rank - 1 else "relu", shape, arrays, rng)
    width = int(np.prod(shape[first:]))
    # The sum's width / 16 + 8 roundings, exp's 8, the quotient's 2, the list's; logarithms are below 40 here.
    bound = slope * (width / 16 + 30)
    primitive = Softmax(tuple(range(first, rank)), log)
    check_tiles(
        engine, SoftmaxRows, primitive, arrays, bound, arity=1, size=40 if log else 4 * bool(fused), fused=fused
    )


@pytest.mark.opencl
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("seed", range(16))
def test_softmax_in_front_of_other_axes_agrees_with_float64(engine, log, seed):
    rng = np.random.default_rng(seed)
    rank = 2 + seed % 3
    shape, first = draw_shape(rng, rank), int(rng.integers(rank - 1))
    axes = tuple(range(first, int(rng.integers(first + 1, rank))))
    arrays = [(rng.standard_normal(shape) * 3).astype(np.float32)]
    count = int(np.prod([shape[a] for a in axes]))
    # The sum's roundings, exp's 8 and its argument's (differences below 24), the quotient's 2; logarithms are below 40.
    check_tiles(engine, SoftmaxPlanes, Softmax(axes, log), arrays, count + 40, arity=1, size=40 if log else 0)


@pytest.mark.opencl
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("shape", [(3, 77, 3), (2, 40, 15), (1, 131, 1, 2), (2, 31, 4), (2, 35, 16)], ids=str)
def test_softmax_in_front_of_few_elements_agrees_with_float64(engine, log, shape):
    arrays = [(np.random.default_rng(5).standard_normal(shape) * 3).astype(np.float32)]
    check_tiles(engine, SoftmaxPlanes, Softmax((1,), log), arrays, shape[1] + 40, arity=1, size=40 if log else 0)


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("kind", "shape", "axis"), [(SoftmaxRows, (5, 37), 1), (SoftmaxPlanes, (37, 5), 0), (SoftmaxPlanes, (37, 17), 0)]
)
def test_softmax_of_large_values_nan_and_infinities_is_what_numpy_says(engine, kind, shape, axis):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32) * 1000
    rows = np.moveaxis(x, axis, 1)
    rows[1, 4], rows[2, 36], rows[3, 20] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        want = Softmax((axis,)).reference(x.astype(np.float64))[0]
    q = pose(engine.info, kind, Softmax((axis,)), [Layout.of(x)], arity=1)
    got = run_tiles(engine, kind, q, [x])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    # exp of a difference d of float32 inputs is off by 8 roundings and 2^-24 |d|; the result is 0 where d < -100.
    np.testing.assert_allclose(got, want, rtol=150 * 2.0**-24, atol=1e-37)


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(25))
def test_layer_normalization_agrees_with_float64(engine, seed):
    rng = np.random.default_rng(seed)
    rank = 1 + seed % 4
    shape, axis = draw_shape(rng, rank), int(rng.integers(rank))
    arrays = [rng.standard_normal(s).astype(np.float32) for s in (shape, shape[axis:], shape[axis:])[: 2 + seed % 2]]
    arity = len(arrays)
    fused, slope = post_list(LISTS[seed % 4] if axis == rank - 1 else "", shape, arrays, rng)
    x, scale = arrays[0].astype(np.float64), np.abs(arrays[1])
    axes = tuple(range(axis, rank))
    deviation = np.sqrt(np.square(x - x.mean(axes, keepdims=True)).mean(axes, keepdims=True) + 1e-5)
    # The mean is off by width / 16 + 4 roundings of values below 5, seen against the deviation; the variance likewise.
    width = int(np.prod(shape[axis:]))
    bound = slope * 2 * (width / 16 + 16)
    size = (5 / deviation + 5) * scale + 4
    primitive = LayerNormalization(axis, 1e-5)
    check_tiles(engine, NormalizeRows, primitive, arrays, bound, arity=arity, size=size, fused=fused)


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(60))
def test_transposes_move_every_element(engine, seed):
    rng = np.random.default_rng(seed)
    rank = 1 + seed % 5
    shape = draw_shape(rng, rank, (3, 4, 9, 20, 40))
    arrays = [rng.standard_normal(shape).astype(np.float32)]
    primitive = Transpose(tuple(int(a) for a in rng.permutation(rank)))
    out = primitive.infer([Layout.of(arrays[0])])[0].shape
    fused, _ = post_list(("", "", "relu", "add")[seed % 4], out, arrays, rng)
    q = pose(engine.info, TransposeTiles, primitive, [Layout.of(a) for a in arrays], arity=1, fused=fused)
    tiles = TransposeTiles
    if TransposeTiles.refusal(q):
        fused = []
        q = pose(engine.info, TransposeTiles, primitive, [Layout.of(arrays[0])], arity=1)
        tiles = TransposePlanes if "neighbours" in str(TransposeTiles.refusal(q)) else TransposeTiles
        q = pose(engine.info, tiles, primitive, [Layout.of(arrays[0])], arity=1)
    if "need" in str(tiles.refusal(q)):
        pytest.skip("more axes than the driver walks")
    # Elements move as they are; the one addition of the list rounds once, on values below 10.
    check_tiles(
        engine,
        tiles,
        primitive,
        arrays if fused else arrays[:1],
        1.0 if fused else 0.0,
        arity=1,
        fused=fused,
        misalign=seed % 16,
    )


def test_softmax_over_inner_axes_and_scales_along_three_axes_are_refused():
    x = Layout.of(np.zeros((2, 16, 4), np.float32))
    assert "last axes" in str(SoftmaxRows.refusal(pose(DeviceInfo(), SoftmaxRows, Softmax((1,)), [x], arity=1)))
    assert "behind them" in str(SoftmaxPlanes.refusal(pose(DeviceInfo(), SoftmaxPlanes, Softmax((2,)), [x], arity=1)))
    apart = pose(DeviceInfo(), SoftmaxPlanes, Softmax((0, 2)), [x], arity=1)
    assert "neighbouring" in str(SoftmaxPlanes.refusal(apart))
    x, scale = (Layout.of(np.zeros(shape, np.float32)) for shape in ((2, 4, 3, 5), (4, 1, 5)))
    q = pose(DeviceInfo(), NormalizeRows, LayerNormalization(1), [x, scale], arity=2)
    assert "two axes" in str(NormalizeRows.refusal(q))
