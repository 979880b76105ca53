"""Operations in front of convolutions and poolings against float64: what a ticket prepares in its scratch."""

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.convolution import ConvFsv16
from clgraph.implementations.cpu.convolution_staged import ConvStaged
from clgraph.implementations.cpu.cost import again_seconds
from clgraph.implementations.cpu.pooling import PoolFsv16
from clgraph.implementations.cpu.reduce import ReduceSpatialFsv16
from clgraph.implementations.cpu.resize import ResizeFsv16
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.ops.resize import Resize
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import any_halo, check_tiles, pose, post_list, several_at_a_time

PRES = (
    "scale shift relu",
    "gate",
    "relu",
    "gate sigmoid",
    "shift clip",
    "add relu",
    "scale row",
    "hard_swish scale",
    "scale scale",
    "shift scale",
)


def pre_list(words, shape, arrays, rng):
    """Return the operations in front (operands appended to *arrays*) and a bound of a staged value's size.

    Inputs and operands are below 4 in size; a bound of 1 for what follows a clip or sigmoid.
    """
    fused, size = [], 4.0

    def operand(of):
        arrays.append(np.clip(rng.standard_normal(of), -4, 4).astype(np.float32))
        return (len(arrays) - 1,)

    for word in words.split():
        if word in ("scale", "shift", "row"):
            of = shape[-1:] if word == "row" else (shape[1], *(1 for _ in shape[2:]))
            fused.append(Fused(Eltwise("mul" if word == "scale" else "add"), operand(of), 0, "pre"))
            size = size * 4 if word == "scale" else size + 4
        elif word == "gate":
            fused.append(Fused(Eltwise("mul"), operand((*shape[:2], *(1 for _ in shape[2:]))), 1, "pre"))
            size *= 4
        elif word == "add":
            fused.append(Fused(Eltwise("add"), operand(shape), 0, "pre"))
            size += 4
        elif word == "clip":
            fused.append(Fused(Activation("clip", 0.5, 2.0), where="pre"))
        elif word == "hard_swish":
            fused.append(Fused(Activation("hard_swish", 1 / 6, 0.5), where="pre"))
        else:
            fused.append(Fused(Activation(word), where="pre"))
    return fused, size


@pytest.mark.opencl
@pytest.mark.parametrize("outputs", [79, 112, 240])
def test_the_last_group_of_output_blocks_may_be_a_part(engine, monkeypatch, outputs):
    monkeypatch.setattr(engine, "info", several_at_a_time(engine.info))
    primitive, arrays, arity, fused, roundings, size, _ = draw(outputs, "gate", (1, 1), 40, outputs, (5, 28))
    layouts = [Layout.of(a) for a in arrays]
    constant = tuple(range(1, arity))
    q = pose(engine.info, ConvStaged, primitive, layouts, arity=arity, fused=fused, constant=constant)
    nb = ConvStaged.plan(q).steps[0].descriptor.nb
    assert engine.info.simd < 16 or -(-outputs // 16) % nb
    check_tiles(
        engine,
        ConvStaged,
        primitive,
        arrays,
        roundings,
        arity=arity,
        size=np.float64(size),
        constant=constant,
        fused=fused,
    )


def draw(seed, words, kernel, channels, outputs, side, strides=(1, 1), pads=((0, 0), (0, 0)), dilations=(1, 1)):
    """Return primitive, arrays, how many are its own, fused operations, roundings and size for check_tiles."""
    rng = np.random.default_rng(seed)
    shape = (1 + seed % 2, channels, *side)
    arrays = [np.clip(rng.standard_normal(shape), -4, 4).astype(np.float32)]
    arrays += [rng.standard_normal(s).astype(np.float32) for s in ((outputs, channels, *kernel), (outputs,))]
    arrays = arrays[: 2 + seed % 2]
    arity = len(arrays)
    primitive = Convolution(strides, dilations, pads)
    out = primitive.infer([Layout.of(a) for a in arrays])[0].shape
    fused, size = pre_list(words, shape, arrays, rng)
    behind, slope = post_list(("", "relu", "add hard_swish", "gate", "row sigmoid")[seed % 5], out, arrays, rng)
    # A staged value below `size` has at most 12 roundings of its own beside the n of the sum.
    weights = np.abs(arrays[1]).sum((1, 2, 3)).max()
    roundings = slope * (arrays[1][0].size + 12 + 20)
    return primitive, arrays, arity, (*fused, *behind), roundings, size * weights + 8, rng


@pytest.mark.opencl
@pytest.mark.parametrize("words", PRES)
@pytest.mark.parametrize("seed", range(4))
def test_operations_in_front_of_points_agree_with_float64(engine, words, seed):
    channels, outputs = ((32, 48), (17, 33), (70, 16), (3, 128))[seed]
    side = ((14, 15), (31, 17), (7, 7), (40, 33))[seed]
    strides = ((1, 1), (2, 2), (1, 1), (2, 3))[seed]
    primitive, arrays, arity, fused, roundings, size, rng = draw(
        seed + 10 * PRES.index(words), words, (1, 1), channels, outputs, side, strides
    )
    given = {"arity": arity, "size": np.float64(size), "constant": tuple(range(1, arity)), "fused": fused}
    check_tiles(engine, ConvStaged, primitive, arrays, roundings, **given, out_halo=any_halo(rng, 4))


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(20))
def test_windows_over_the_edge_see_zeros_whatever_stands_in_front(engine, seed):
    rng = np.random.default_rng(seed)
    kernel = ((3, 3), (1, 3), (5, 5), (2, 2), (1, 1))[seed % 5]
    strides = tuple(int(s) for s in rng.integers(1, 4, 2))
    pads = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (2, 2)))
    dilations = (1, 1) if seed % 3 else (2, 1)
    side = tuple(int(s) for s in rng.integers(9, 45, 2))
    words = ("scale shift relu", "clip", "shift sigmoid", "add")[seed % 4]
    channels, outputs = int(rng.integers(1, 70)), int(rng.integers(1, 70))
    primitive, arrays, arity, fused, roundings, size, rng = draw(
        seed, words, kernel, channels, outputs, side, strides, pads, dilations
    )
    given = {"arity": arity, "size": np.float64(size), "constant": tuple(range(1, arity)), "fused": fused}
    check_tiles(engine, ConvStaged, primitive, arrays, roundings, **given, out_halo=any_halo(rng, 4))


@pytest.mark.opencl
@pytest.mark.parametrize("shape", [(1024, 32, 7), (512, 128, 14), (64, 128, 56)])
def test_strips_of_many_channels_agree_with_float64(engine, shape):
    channels, outputs, side = shape
    primitive, arrays, arity, fused, roundings, size, _ = draw(
        0, "scale shift relu", (1, 1), channels, outputs, (side, side)
    )
    given = {"arity": arity, "size": np.float64(size), "constant": (1,), "fused": fused}
    check_tiles(engine, ConvStaged, primitive, arrays, roundings, **given)


@pytest.mark.opencl
def test_nan_in_front_reaches_every_window_over_it(engine):
    primitive, arrays, arity, fused, roundings, size, _ = draw(
        0, "scale shift relu", (3, 3), 17, 16, (9, 9), pads=((1, 1), (1, 1))
    )
    arrays[0][0, 3, 4, 4] = np.nan
    given = {"arity": arity, "size": np.float64(size), "constant": (1,), "fused": fused}
    check_tiles(engine, ConvStaged, primitive, arrays, roundings, **given)


def test_nothing_in_front_groups_and_moving_weights_are_refused_with_the_reason():
    primitive, arrays, arity, fused, *_ = draw(0, "relu", (1, 1), 32, 32, (8, 8))
    layouts = [Layout.of(a) for a in arrays]

    def reason(constant=(1,), **changes):
        q = pose(DeviceInfo(), ConvStaged, primitive, layouts, arity=arity, fused=fused, constant=constant)
        return ConvStaged.refusal(replace(q, **changes))

    assert reason() is None
    assert "in front of them" in str(reason(fused=()))
    assert "one group" in str(reason(primitive=replace(primitive, groups=2)))
    assert "constant weights" in str(reason(constant=()))


@pytest.mark.parametrize("simd", [16, 8])
def test_scratch_stays_within_the_second_level_cache_for_real_layers(simd):
    for channels, side in ((64, 56), (512, 28), (1024, 14), (1024, 7), (2048, 7)):
        primitive, arrays, arity, fused, *_ = draw(0, "relu", (1, 1), channels, 16, (side, side))
        layouts = [Layout.of(a) for a in arrays]
        q = pose(DeviceInfo(simd=simd), ConvStaged, primitive, layouts, arity=arity, fused=fused, constant=(1,))
        (tile,) = ConvStaged.plan(q).steps
        assert tile.scratch <= 256 * 1024
        assert tile.tickets >= 2


def test_weights_beyond_a_cores_cache_are_read_once_for_a_small_map():
    weights = 512 * 512 * 9 * 4
    for side in (1, 4):
        primitive, arrays, arity, fused, *_ = draw(0, "relu", (3, 3), 512, 512, (side, side), pads=((1, 1), (1, 1)))
        layouts = [Layout.of(a) for a in arrays]
        for workers in (1, 2, 4):
            device = DeviceInfo(workers=workers)
            q = pose(device, ConvStaged, primitive, layouts, arity=arity, fused=fused, constant=(1,))
            (tile,) = ConvStaged.plan(q).steps
            assert tile.descriptor.strips == 1
            assert tile.tickets == tile.descriptor.tiers >= workers
            plain = pose(device, ConvFsv16, primitive, layouts[:2], arity=2, constant=(1,))
            least = again_seconds(device, weights, 1)
            assert least < ConvFsv16.cost(plain) <= ConvStaged.cost(q)


@pytest.mark.opencl
@pytest.mark.parametrize("seed", [0, 3])
def test_tickets_of_some_output_channels_agree_with_float64(engine, seed):
    primitive, arrays, arity, fused, roundings, size, rng = draw(
        seed, "scale shift relu", (3, 3), 250, 200, (3, 2), (1, 2), ((1, 1), (1, 0))
    )
    layouts = [Layout.of(a) for a in arrays]
    constant = tuple(range(1, arity))
    q = pose(engine.info, ConvStaged, primitive, layouts, arity=arity, fused=fused, constant=constant)
    assert ConvStaged.plan(q).steps[0].descriptor.tiers > 1
    given = {"arity": arity, "size": np.float64(size), "constant": constant, "fused": fused}
    check_tiles(engine, ConvStaged, primitive, arrays, roundings, **given, out_halo=any_halo(rng, 4))


@pytest.mark.opencl
@pytest.mark.parametrize("function", ["max", "average"])
@pytest.mark.parametrize("words", PRES)
@pytest.mark.parametrize("seed", range(3))
def test_operations_in_front_of_a_pooling_agree_with_float64(engine, function, words, seed):
    rng = np.random.default_rng(seed + 10 * PRES.index(words))
    shape = (1 + seed % 2, int(rng.integers(1, 50)), *(int(s) for s in rng.integers(6, 30, 2)))
    arrays = [np.clip(rng.standard_normal(shape), -4, 4).astype(np.float32)]
    kernel = tuple(int(k) for k in rng.integers(1, 4, 2))
    pads = tuple((int(rng.integers(0, (k + 1) // 2)), int(rng.integers(0, (k + 1) // 2))) for k in kernel)
    strides = tuple(int(s) for s in rng.integers(1, 4, 2))
    primitive = Pooling(function, kernel, strides, (1, 1) if seed else (2, 1), pads, bool(seed % 2), words == "relu")
    if seed == 1:
        arrays[0].flat[::97] = np.nan
    out = primitive.infer([Layout.of(arrays[0])])[0].shape
    fused, size = pre_list(words, shape, arrays, rng)
    behind, slope = post_list(("", "add relu", "gate")[seed], out, arrays, rng)
    # Values below `size` with 12 roundings of their own; an average of 9 adds 9, each operation of the list a few.
    given = {"arity": 1, "size": np.float64(size), "fused": (*fused, *behind), "out_halo": any_halo(rng, 4)}
    check_tiles(engine, PoolFsv16, primitive, arrays, slope * 40, **given)


@pytest.mark.opencl
@pytest.mark.parametrize("function", ["mean", "sum", "max"])
@pytest.mark.parametrize("words", PRES)
@pytest.mark.parametrize("keep", [True, False])
def test_operations_in_front_of_a_global_reduction_agree_with_float64(engine, function, words, keep):
    rng = np.random.default_rng(PRES.index(words))
    shape = (2, int(rng.integers(1, 50)), *(int(s) for s in rng.integers(1, 20, 2)))
    arrays = [np.clip(rng.standard_normal(shape), -4, 4).astype(np.float32)]
    fused, size = pre_list(words, shape, arrays, rng)
    behind, _ = post_list("relu" if keep else "add", (*shape[:2], *((1, 1) if keep else ())), arrays, rng)
    count = shape[2] * shape[3]
    size = np.float64(size * (count if function == "sum" else 1) + 4)
    given = {"arity": 1, "size": size, "fused": (*fused, *behind), "out_halo": any_halo(rng, 4) if keep else ()}
    # 12 roundings of a staged value, four running sums of n / 4 each and what follows them.
    check_tiles(engine, ReduceSpatialFsv16, Reduce(function, (2, 3), keep), arrays, 32 + count / 4, **given)


@pytest.mark.opencl
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("words", PRES)
def test_operations_in_front_of_an_interpolation_agree_with_float64(engine, mode, words):
    rng = np.random.default_rng(PRES.index(words))
    shape = (2, int(rng.integers(1, 40)), *(int(s) for s in rng.integers(2, 14, 2)))
    arrays = [np.clip(rng.standard_normal(shape), -4, 4).astype(np.float32)]
    fused, size = pre_list(words, shape, arrays, rng)
    out = (*shape[:2], *(s * int(rng.integers(1, 5)) for s in shape[2:]))
    behind, slope = post_list(("", "add relu")[PRES.index(words) % 2], out, arrays, rng)
    scales = tuple(b / a for a, b in zip(shape, out, strict=True))
    primitive = Resize(mode=mode, shape=out, scales=scales)
    given = {"arity": 1, "size": np.float64(size), "fused": (*fused, *behind), "out_halo": any_halo(rng, 4)}
    # 12 roundings of a staged value, 6 of the four products and their sum, the weights' own from float coordinates.
    check_tiles(engine, ResizeFsv16, primitive, arrays, slope * 40, **given)
