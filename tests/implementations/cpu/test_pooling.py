"""Pooling and global reduction tiles against float64."""

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.implementations.cpu.pooling import PoolFsv16
from clgraph.implementations.cpu.reduce import ReduceSpatialFsv16
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import any_halo, check_tiles, pose, post_list

pytestmark = pytest.mark.opencl

LISTS = ("", "relu", "add", "gate hard_swish", "clip")


@pytest.mark.parametrize("function", ["max", "average"])
@pytest.mark.parametrize("seed", range(25))
def test_windows_agree_with_float64(engine, function, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((int(rng.integers(1, 3)), int(rng.integers(1, 71)), *rng.integers(7, 40, 2))) - 3
    kernel = tuple(int(k) for k in rng.integers(1, 5, 2))
    pads = tuple((int(rng.integers(0, (k + 1) // 2)), int(rng.integers(0, (k + 1) // 2))) for k in kernel)
    strides, dilations = tuple(int(s) for s in rng.integers(1, 4, 2)), (1, 1) if seed % 3 else (2, 1)
    primitive = Pooling(function, kernel, strides, dilations, pads, bool(seed % 2), bool(seed % 4 < 2))
    if seed % 5 == 0:
        x.flat[:: 97 + seed] = np.nan
    arrays = [x.astype(np.float32)]
    fused, slope = post_list(LISTS[seed % 5], primitive.infer([Layout.of(arrays[0])])[0].shape, arrays, rng)
    # An average of at most 16 elements below 8 in size rounds 16 times, each operation of the list a few times more.
    bound = slope * (24 if function == "average" else 8)
    check_tiles(engine, PoolFsv16, primitive, arrays, bound, arity=1, size=8, fused=fused, out_halo=any_halo(rng, 4))


@pytest.mark.parametrize("function", ["max", "average"])
@pytest.mark.parametrize(("kernel", "strides", "shape"), [((2, 2), (2, 2), (1, 7)), ((5, 4), (3, 2), (4, 3))])
def test_a_window_larger_than_the_input_agrees_with_float64(engine, function, kernel, strides, shape, rng):
    x = rng.standard_normal((2, 35, *shape)) - 3
    primitive = Pooling(function, kernel, strides, (1, 1), ((0, 0), (0, 0)))
    # At most 12 elements below 8 in size are added.
    check_tiles(engine, PoolFsv16, primitive, [x.astype(np.float32)], 24, arity=1, size=8)


def test_a_window_of_nan_and_infinities_is_what_numpy_says(engine):
    x = np.full((1, 17, 4, 6), -np.inf, np.float32)
    x[0, 3, 1, 1], x[0, 5, 2, 2], x[0, 16, 0, 5] = np.nan, np.inf, 2.0
    primitive = Pooling("max", (2, 2), (1, 1), (1, 1), ((1, 0), (0, 1)))
    q = pose(engine.info, PoolFsv16, primitive, [Layout.of(x)], arity=1)
    from tests.support.run_tiles import run_tiles

    np.testing.assert_array_equal(run_tiles(engine, PoolFsv16, q, [x]), primitive.reference(x)[0])


@pytest.mark.parametrize("function", ["mean", "sum", "max"])
@pytest.mark.parametrize("seed", range(8))
def test_global_reductions_agree_with_float64(engine, function, seed):
    rng = np.random.default_rng(seed)
    keep = bool(seed % 2)
    x = rng.standard_normal((int(rng.integers(1, 3)), int(rng.integers(1, 71)), *rng.integers(1, 30, 2)))
    arrays = [x.astype(np.float32)]
    shape = (*x.shape[:2], *((1, 1) if keep else ()))
    words = (LISTS if keep else ("", "relu", "add"))[seed % 3]
    fused, slope = post_list(words, shape, arrays, rng)
    size = np.abs(x).sum((2, 3), keepdims=keep) / (x[0, 0].size if function == "mean" else 1)
    # Four running sums of n / 4 each, two additions, one product, and the list.
    bound = slope * (x[0, 0].size / 4 + 16)
    check_tiles(
        engine,
        ReduceSpatialFsv16,
        Reduce(function, (2, 3), keep),
        arrays,
        bound,
        arity=1,
        size=size + 4,
        fused=fused,
        out_halo=any_halo(rng, 4) if keep else (),
    )


def test_other_axes_and_functions_are_refused():
    layout = Layout.of(np.zeros((1, 16, 4, 4), np.float32))
    for primitive in (Reduce("mean", (1,), True), Reduce("prod", (2, 3), True), Reduce("mean", (3,), True)):
        q = pose(DeviceInfo(), ReduceSpatialFsv16, primitive, [layout], arity=1)
        assert ReduceSpatialFsv16.refusal(q) is not None
