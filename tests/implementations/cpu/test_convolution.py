"""Convolution tiles against float64: every kernel, stride, pad, dilation, channel count and list of post-operations."""

from dataclasses import replace

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.topology import Topology
from clgraph.implementations.cpu.blocks import BLOCKED, MICROS, PLANAR, best_block, ids
from clgraph.implementations.cpu.convolution import ConvFsv16
from clgraph.implementations.cpu.convolution_depthwise import DepthwiseFsv16, depthwise_micro
from clgraph.implementations.cpu.convolution_planar import ConvPlanar
from clgraph.implementations.cpu.convolution_sizes import cheapest_sizes
from clgraph.implementations.cpu.convolution_windows import ConvWindows
from clgraph.ops.convolution import Convolution
from clgraph.passes.fusing.convolution_groups import spread_weights
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import POSTS, any_halo, check_tiles, pose, post_list, several_at_a_time

CHANNELS = (3, 16, 17, 32, 33, 48, 64, 70, 128)
KERNELS = ((1, 1), (3, 3), (1, 3), (5, 5), (2, 2), (7, 7))


def check_convolution(engine, implementation, seed, channels, outputs, groups, *, most_stride=3):
    """One drawn problem; sums of n products in float32 with fma are off by at most n 2^-24 sum |x w|.

    Weights of every third are no constants.
    """
    rng = np.random.default_rng(seed)
    kernel = KERNELS[rng.integers(len(KERNELS))]
    strides = tuple(int(s) for s in rng.integers(1, most_stride + 1, 2))
    dilations = tuple(int(d) for d in rng.integers(1, 3, 2)) if rng.random() < 0.3 else (1, 1)
    pads = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (2, 2))) if rng.random() < 0.7 else ((0, 0), (0, 0))
    shape = (int(rng.integers(1, 3)), channels, *(int(s) for s in rng.integers(14, 40, 2)))
    primitive = Convolution(strides, dilations, pads, groups)
    arrays = [
        rng.standard_normal(s).astype(np.float32)
        for s in (shape, (outputs, channels // groups, *kernel), (outputs,))[: 2 + int(rng.integers(2))]
    ]
    arity = len(arrays)
    out = primitive.infer([Layout.of(a) for a in arrays])[0].shape
    (size,) = primitive.reference(*(np.abs(a).astype(np.float64) for a in arrays))
    fused, slope = post_list(POSTS[seed % len(POSTS)], out, arrays, rng)
    # A bias, a residual and each operation of the list add a rounding or a few of the value they make.
    check_tiles(
        engine,
        implementation,
        primitive,
        arrays,
        slope * (arrays[1][0].size + 20),
        arity=arity,
        size=size + 4,
        constant=tuple(range(1, arity)) if seed % 3 else (),
        fused=fused,
        out_halo=any_halo(rng, 4),
        misalign=int(rng.integers(16)) if implementation is ConvPlanar else 0,
    )


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(40))
def test_blocked_convolutions_agree_with_float64(engine, seed):
    rng = np.random.default_rng(1000 + seed)
    channels, outputs = (int(CHANNELS[i]) for i in rng.integers(0, len(CHANNELS), 2))
    groups = 2 if channels % 32 == 0 and outputs % 32 == 0 and seed % 2 else 1
    check_convolution(engine, ConvFsv16, seed, channels, outputs, groups)


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(16))
def test_windows_that_reach_far_into_the_padding_agree_with_float64(engine, seed):
    """Dilations as large as maps, maps as small as windows: what lies in the padding for all of a chunk is not read."""
    rng = np.random.default_rng(seed)
    kernel = ((3, 3), (1, 3), (5, 5), (3, 2))[seed % 4]
    strides, dilations = tuple(rng.integers(1, 3, 2).tolist()), tuple(rng.integers(6, 20, 2).tolist())
    pads = tuple((d * (k - 1), d * (k // 2) + 1) for k, d in zip(kernel, dilations, strict=True))
    groups, (channels, outputs) = ((1, (33, 70)), (2, (64, 32)))[seed % 3 == 2]
    shapes = ((2, channels, *rng.integers(1, 14, 2).tolist()), (outputs, channels // groups, *kernel), (outputs,))
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    primitive = Convolution(strides, dilations, pads, groups)
    (size,) = primitive.reference(*(np.abs(a).astype(np.float64) for a in arrays))
    if seed % 2:
        arrays[0][1, 5, 0, 0] = np.nan  # it reaches the windows that meet it, and no other
    fused, slope = post_list(("add relu", "gate", "")[seed % 3], size.shape, arrays, rng)
    q = pose(engine.info, ConvFsv16, primitive, list(map(Layout.of, arrays)), arity=3, fused=fused, constant=(1, 2))
    assert ConvFsv16.plan(q).steps[0].descriptor.skips
    roundings = slope * (arrays[1][0].size + 20)
    check_tiles(
        engine,
        ConvFsv16,
        primitive,
        arrays,
        roundings,
        arity=3,
        size=size + 4,
        constant=(1, 2),
        fused=fused,
        out_halo=any_halo(rng, 4),
    )


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(20))
def test_the_first_layer_agrees_with_float64_at_any_alignment(engine, seed):
    check_convolution(engine, ConvPlanar, seed, 1 + seed % 6, CHANNELS[seed % len(CHANNELS)], 1, most_stride=4)


@pytest.mark.opencl
@pytest.mark.parametrize("width", range(1, 18))
def test_patches_of_an_image_agree_with_float64_in_rows_of_any_width(engine, width):
    """Windows of which none overlaps another, as vision transformers begin with: read where the image lies."""
    rng = np.random.default_rng(width)
    patch, left = int(rng.choice((3, 4, 8, 14, 16))), int(rng.integers(0, 3))
    outputs, sizes = int(rng.choice((33, 64, 96))), (patch * 3, patch * width + left)
    shapes = ((1 + width % 2, 3, *sizes), (outputs, 3, patch, patch), (outputs,))
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    primitive = Convolution((patch, patch), (1, 1), ((0, 0), (0, 0)), 1)
    (size,) = primitive.reference(*(np.abs(a).astype(np.float64) for a in arrays))
    q = pose(engine.info, ConvPlanar, primitive, list(map(Layout.of, arrays)), arity=3, constant=(1, 2))
    assert not ConvPlanar.plan(q).steps[0].scratch, "nothing is copied"
    tolerance = 3 * patch * patch + 20
    more = {"arity": 3, "size": size + 4, "constant": (1, 2), "misalign": int(rng.integers(16))}
    check_tiles(engine, ConvPlanar, primitive, arrays, tolerance, **more)


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(20))
def test_convolutions_of_waveforms_agree_with_float64_at_any_alignment(engine, seed):
    rng = np.random.default_rng(seed)
    outputs, kernel = CHANNELS[seed % len(CHANNELS)], int((1, 2, 10, 33, 1100)[seed % 5])
    stride, dilation, pads = int(rng.integers(1, 40)), int(rng.integers(1, 3)), tuple(rng.integers(0, 3, 2).tolist())
    width = (kernel - 1) * dilation + 1 + stride * int(rng.integers(0, 30)) + int(rng.integers(stride))
    shapes = ((1 + seed % 3, 1, width), (outputs, 1, kernel), (outputs,))[: 2 + seed % 2]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    primitive = Convolution((stride,), (dilation,), (pads,), 1)
    out, arity = primitive.infer([Layout.of(a) for a in arrays])[0].shape, len(arrays)
    (size,) = primitive.reference(*(np.abs(a).astype(np.float64) for a in arrays))
    fused, slope = post_list(POSTS[seed % len(POSTS)], out, arrays, rng)
    check_tiles(
        engine,
        ConvWindows,
        primitive,
        arrays,
        slope * (kernel + 20),
        arity=arity,
        size=size + 4,
        constant=tuple(range(1, arity)) if seed % 3 else (),
        fused=fused,
        out_halo=any_halo(rng, 3),
        misalign=int(rng.integers(16)),
    )


def test_short_time_fourier_transforms_are_products_of_windows(rng):
    topology = Topology()
    topology.input("x", (1, 1, 1280))
    topology.constant("w", rng.standard_normal((258, 1, 256)).astype(np.float32))
    topology.output("y", topology.add("stft", Convolution((128,), (1,), ((0, 0),), 1), "x", "w"))
    (node,) = (node for node in clgraph.compile(topology, "null").program if node.name == "stft")
    assert node.choice.implementation is ConvWindows


def test_weights_that_are_computed_at_run_time_are_packed_in_each_run():
    topology = Topology()
    for name, shape in {"x": (1, 32, 12, 12), "w": (32, 32, 3, 3), "b": (32,)}.items():
        topology.input(name, shape)
    topology.output("y", topology.add("conv", Convolution((1, 1), (1, 1), ((1, 1), (1, 1))), "x", "w", "b"))
    ran = [node.choice.implementation.name for node in clgraph.compile(topology, "null").program]
    assert "reorder.pack_blocks" in ran
    assert "convolution.fsv16" in ran


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(30))
def test_depthwise_convolutions_agree_with_float64(engine, seed):
    channels = 1 + (7 * seed) % 70
    check_convolution(engine, DepthwiseFsv16, seed, channels, channels, channels)


@pytest.mark.opencl
@pytest.mark.parametrize("width", [1, 3, 4, 6, 7, 9])
def test_short_rows_of_depthwise_convolutions_agree_with_float64(engine, rng, width):
    x = rng.standard_normal((1, 18, 5, width)).astype(np.float32)
    w = rng.standard_normal((18, 1, 3, 3)).astype(np.float32)
    primitive = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), 18)
    (size,) = primitive.reference(np.abs(x).astype(np.float64), np.abs(w).astype(np.float64))
    # Sums of nine products.
    check_tiles(engine, DepthwiseFsv16, primitive, [x, w], 9, arity=2, size=size, constant=(1,))


@pytest.mark.parametrize("simd", [16, 8])
@pytest.mark.parametrize("width", range(1, 20))
def test_instances_of_a_kernel_serve_no_shorter_rows_than_they_compute_at_once(simd, width):
    defines = dict(depthwise_micro(simd, (3, 3), 1, width).defines)
    assert defines["K"] == 0 or defines["UR"] <= width


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(24))
def test_zeros_outside_of_bands_are_left_out_and_nothing_else(engine, seed):
    rng = np.random.default_rng(seed)
    bands = int(rng.integers(2, 7))
    ins, outs = (int(c) for c in rng.integers(1, 41, 2))
    kernel = ((1, 1), (3, 3), (1, 2))[seed % 3]
    arrays = [rng.standard_normal((1 + seed % 2, ins * bands, 9, 14)).astype(np.float32)]
    weights = np.full((outs * bands, ins * bands, *kernel), -0.0, np.float32)
    for b in range(bands):
        part = rng.standard_normal((outs, ins, *kernel))
        weights[b * outs : (b + 1) * outs, b * ins : (b + 1) * ins] = part
    arrays += [weights, rng.standard_normal(outs * bands).astype(np.float32)]
    primitive = Convolution((1, 1 + seed % 2), (1, 1), ((1, 1), (0, 1)), apart=True, bands=bands)
    (size,) = primitive.reference(*(np.abs(a).astype(np.float64) for a in arrays))
    check_tiles(engine, ConvFsv16, primitive, arrays, ins * kernel[0] * kernel[1] + 2, size=size, constant=(1, 2))


@pytest.mark.opencl
@pytest.mark.parametrize("blocks", [5, 7, 9, 15])
@pytest.mark.parametrize("words", ["", "add relu", "add hard_swish", "gate"])
def test_the_last_group_of_output_blocks_may_be_a_part(engine, monkeypatch, rng, blocks, words):
    monkeypatch.setattr(engine, "info", several_at_a_time(engine.info))
    outputs = 16 * blocks - 5
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((2, 33, 5, 28), (outputs, 33, 1, 1), (outputs,))]
    primitive = Convolution((1, 1), (1, 1), ((0, 0), (0, 0)))
    (size,) = primitive.reference(*(np.abs(a).astype(np.float64) for a in arrays))
    fused, slope = post_list(words, (2, outputs, 5, 28), arrays, rng)
    layouts = [Layout.of(a) for a in arrays]
    q = pose(engine.info, ConvFsv16, primitive, layouts, arity=3, fused=fused, constant=(1, 2))
    nb = ConvFsv16.plan(q).steps[0].descriptor.nb
    assert engine.info.simd < 16 or blocks % nb
    check_tiles(engine, ConvFsv16, primitive, arrays, slope * 53, arity=3, size=size + 4, constant=(1, 2), fused=fused)


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(24))
def test_bands_of_shuffled_channels_are_found_in_the_order_before_the_shuffle(engine, seed):
    rng = np.random.default_rng(seed)
    bands, ranges = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    ins, outs = ranges * int(rng.integers(1, 13)), int(rng.integers(1, 41))
    kernel = ((1, 1), (3, 3), (1, 2))[seed % 3]
    channels = ins * bands
    arrays = [rng.standard_normal((1 + seed % 2, channels, 9, 14)).astype(np.float32)]
    weights = np.full((outs * bands, channels, *kernel), -0.0, np.float32)
    for b in range(bands):
        part = rng.standard_normal((outs, ins, *kernel))
        # Channel s * n + i has place i * ranges + s among the bands.
        placed = [(p % ranges) * (channels // ranges) + p // ranges for p in range(b * ins, (b + 1) * ins)]
        weights[b * outs : (b + 1) * outs, placed] = part
    arrays += [weights, rng.standard_normal(outs * bands).astype(np.float32)]
    primitive = Convolution((1, 1 + seed % 2), (1, 1), ((1, 1), (0, 1)), apart=True, bands=bands, shuffled=ranges)
    (size,) = primitive.reference(*(np.abs(a).astype(np.float64) for a in arrays))
    check_tiles(engine, ConvFsv16, primitive, arrays, ins * kernel[0] * kernel[1] + 2, size=size, constant=(1, 2))


@pytest.mark.opencl
@pytest.mark.parametrize("words", ["", "relu", "add relu", "clip", "gate"])
@pytest.mark.parametrize("form", ["bands", "whole blocks", "shuffled outputs"])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 2)])
def test_nan_stays_in_its_group_where_several_are_one(engine, rng, words, form, kernel):
    groups, ins, outs = (8, 4, 12) if form == "whole blocks" else (5, 7, 6)
    own = rng.standard_normal((groups * outs, ins, *kernel)).astype(np.float32)
    own[rng.random(own.shape) < 0.3] = 0  # a zero of its own group does not hide a NaN
    left = 2 if form == "whole blocks" else 1
    weights = spread_weights(own, groups, groups // left, 1)
    weights = rng.permutation(weights) if form == "shuffled outputs" else weights
    arrays = [rng.standard_normal((2, groups * ins, 9, 31)).astype(np.float32), weights]
    arrays[0][1, ins + 1, 4, 4] = arrays[0][0, -1, 8, 30] = np.nan
    shape = (2, groups * outs, 9, 31)
    primitive = Convolution((1, 1), (1, 1), tuple(((k - 1) // 2, k // 2) for k in kernel), left, apart=True)
    primitive = replace(primitive, bands=groups if form == "bands" else 1)
    (size,) = primitive.reference(*(np.abs(np.nan_to_num(a)).astype(np.float64) for a in arrays))
    fused, slope = post_list(words, shape, arrays, rng)
    nan = np.isnan(primitive.reference(*arrays[:2])[0])
    assert 0 < nan.sum() <= 2 * outs * kernel[0] * kernel[1]
    roundings = slope * (ins * kernel[0] * kernel[1] + 8)
    check_tiles(engine, ConvFsv16, primitive, arrays, roundings, arity=2, size=size + 4, constant=(1,), fused=fused)


@pytest.mark.opencl
def test_one_spatial_axis_is_one_row(engine, rng):
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((2, 20, 31), (40, 20, 5), (40,))]
    primitive = Convolution((2,), (1,), ((2, 1),))
    (size,) = primitive.reference(*(np.abs(a).astype(np.float64) for a in arrays))
    check_tiles(engine, ConvFsv16, primitive, arrays, 101, size=size, constant=(1, 2))


@pytest.mark.opencl
def test_nan_in_the_input_reaches_every_window_over_it_through_bounds(engine, rng):
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((1, 16, 9, 9), (16, 16, 3, 3))]
    arrays[0][0, 3, 4, 4] = np.nan
    fused, _ = post_list("relu", (1, 16, 9, 9), arrays, rng)
    primitive = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)))
    (size,) = primitive.reference(*(np.abs(np.nan_to_num(a)).astype(np.float64) for a in arrays))
    check_tiles(engine, ConvFsv16, primitive, arrays, 150, arity=2, size=size, constant=(1,), fused=fused)


@pytest.mark.opencl
@pytest.mark.parametrize("shape", [(512, 512, 7), (256, 512, 14), (64, 128, 28)])
def test_small_maps_with_many_weights_agree_with_float64(engine, rng, shape):
    channels, outputs, side = shape
    sizes = ((1, channels, side, side), (outputs, channels, 1, 1), (outputs,))
    arrays = [rng.standard_normal(s).astype(np.float32) for s in sizes]
    primitive = Convolution((1, 1), (1, 1), ((0, 0), (0, 0)))
    (size,) = primitive.reference(*(np.abs(a).astype(np.float64) for a in arrays))
    check_tiles(engine, ConvFsv16, primitive, arrays, channels + 1, size=size, constant=(1, 2))


@pytest.mark.parametrize(("outputs", "whole"), [(256, True), (160, False)])
def test_maps_with_more_weights_than_pixels_are_cut_by_output_channels(outputs, whole):
    """1024 channels of 196 pixels are fewer than 256 filters: their weights come from memory, fetched ahead."""
    x, w = (Layout(DType.F32, s) for s in ((1, 1024, 14, 14), (outputs, 1024, 1, 1)))
    primitive = Convolution((1, 1), (1, 1), ((0, 0), (0, 0)))
    device = DeviceInfo("pocl:0", simd=16, workers=1)
    desc = ConvFsv16.plan(pose(device, ConvFsv16, primitive, [x, w], arity=2, constant=(1,))).steps[0].descriptor
    assert (bool(desc.channel_major), desc.lines > 0) == (whole, whole)


@pytest.mark.parametrize(("side", "batch", "parts"), [(14, 1, 2), (14, 3, 2), (14, 2, 1), (7, 1, 1)])
def test_each_worker_has_a_part_of_a_map_that_is_worth_sharing(side, batch, parts):
    x, w = (Layout(DType.F32, s) for s in ((batch, 512, side, side), (512, 512, 1, 1)))
    primitive = Convolution((1, 1), (1, 1), ((0, 0), (0, 0)))
    device = DeviceInfo("pocl:0", simd=16, workers=2)
    desc = ConvFsv16.plan(pose(device, ConvFsv16, primitive, [x, w], arity=2, constant=(1,))).steps[0].descriptor
    assert (desc.spans, bool(desc.channel_major)) == (parts, parts == 1)
    assert desc.ticket_chunks * parts >= desc.chunks > desc.ticket_chunks * (parts - 1)


def test_the_block_of_a_convolution_is_that_of_all_that_decides_it_whatever_was_asked_before():
    def problem(halo=(), simd=16, size=14, outputs=48):
        layouts = [Layout(DType.F32, s) for s in ((1, 64, size, size), (outputs, 64, 1, 1))]
        primitive = Convolution((1, 1), (1, 1), ((0, 0), (0, 0)))
        device = DeviceInfo("pocl:0", simd=simd)
        return pose(device, ConvFsv16, primitive, layouts, arity=2, constant=(1,), out_halo=halo)

    around = ((0, 0), (0, 0), (1, 1), (1, 1))
    posed = [problem(), problem(around), problem(simd=8), problem(size=13), problem(outputs=16), problem()]
    found = [(s.flat, s.block) for s in map(cheapest_sizes, posed)]
    assert found == [(s.flat, s.block) for s in map(cheapest_sizes.__wrapped__, posed)]
    assert len(set(found)) == len(found) - 1


def test_groups_of_partial_blocks_missing_halos_and_moving_weights_that_are_not_packed_are_refused_with_the_reason():
    def reason(groups=1, halo=True, **how):
        layouts = [Layout.of(np.zeros(s, np.float32)) for s in ((1, 24, 9, 9), (24, 24 // groups, 3, 3))]
        primitive = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), groups)
        q = pose(DeviceInfo(), ConvFsv16, primitive, layouts, arity=2, **{"constant": (1,), **how})
        if not how.get("packed", True):
            q = q.with_layouts((q.inputs[0], layouts[1]), q.outputs)
        return ConvFsv16.refusal(q if halo else q.with_layouts((q.inputs[0].with_halo(()), q.inputs[1]), q.outputs))

    assert reason() is None
    assert "whole 16-channel blocks" in str(reason(groups=2))
    assert "requires constants, or " in str(reason(constant=(), packed=False))
    assert "zeros around its input" in str(reason(halo=False))


@pytest.mark.parametrize("simd", [16, 8])
@pytest.mark.parametrize("pixel", [BLOCKED, PLANAR])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 8])
def test_every_row_is_put_together_from_instances_that_exist(simd, pixel, stride, blocks):
    for width in range(1, 120):
        block = best_block(simd, pixel, stride, width, blocks, 64)
        assert blocks % block.nb == 0
        assert block.chunks <= width
        table = ids(simd, pixel, block.stride, block.nb)
        left = block.chunk_width or -(-width // block.chunks)
        assert left * block.chunks >= width
        while left:
            wide = table.widths >> 4 * min(left, 15) & 15
            number = (table.low if wide < 8 else table.high) >> 8 * (wide % 8) & 255
            assert dict(MICROS.of(simd)[number].defines)["UR"] == wide > 0
            left -= wide


@pytest.mark.opencl
@pytest.mark.parametrize(("batch", "far"), [(1, 0), (2, 1)])
def test_lines_are_fetched_ahead_of_maps_that_do_not_stay_in_a_cores_cache(engine, batch, far):
    """A map of 64 channels of 40x40 pixels has 400 KB, and is read and written."""
    rng = np.random.default_rng(batch)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((batch, 64, 40, 40), (64, 64, 1, 1)))
    primitive = Convolution((1, 1), (1, 1), ((0, 0), (0, 0)))
    q = pose(engine.info, ConvFsv16, primitive, [Layout.of(x), Layout.of(w)], arity=2, constant=(1,))
    assert ConvFsv16.plan(q).steps[0].descriptor.far == far
    (size,) = primitive.reference(*(np.abs(a).astype(np.float64) for a in (x, w)))
    # n products in float32 with fma are off by at most n 2^-24 sum |x w|.
    check_tiles(engine, ConvFsv16, primitive, [x, w], 64, arity=2, size=size, constant=(1,))
