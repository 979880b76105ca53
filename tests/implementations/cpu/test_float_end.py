"""A hard swish and a line behind the sums of a convolution are computed in registers, to the bits of the list."""

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.graph.node import Fused
from clgraph.implementations.cpu import (
    bottleneck,
    conv_transpose,
    convolution,
    convolution_depthwise,
    convolution_planar,
    convolution_staged,
    convolution_winograd,
)
from clgraph.implementations.cpu.bottleneck import BottleneckFsv16
from clgraph.implementations.cpu.conv_transpose import ConvTransposeFsv16
from clgraph.implementations.cpu.convolution import ConvFsv16
from clgraph.implementations.cpu.convolution_depthwise import DepthwiseFsv16
from clgraph.implementations.cpu.convolution_planar import ConvPlanar
from clgraph.implementations.cpu.convolution_staged import ConvStaged
from clgraph.implementations.cpu.convolution_winograd import ConvWinograd
from clgraph.implementations.cpu.float_end import FloatEnd, float_end
from clgraph.implementations.cpu.fused_operations import blocked_posts, in_registers
from clgraph.ops.activation import Activation
from clgraph.ops.bottleneck import Bottleneck
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.winograd_weights import WinogradWeights
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import pose, run_tiles

SWISH, LINE, FACTOR = Activation("hard_swish", 1 / 6, 0.5), Activation("linear", 0.7, -0.3), Activation("linear", 0.7)
STEPS, WIDE = Activation("fake_quantize", 0.037, -100.0), Activation("fake_quantize_wide", 0.0003, -40000.0)
RELU, SIGMOID = Activation("relu"), Activation("sigmoid")
POINT = Convolution((1, 1), (1, 1), ((0, 0), (0, 0)))
ENDS = ([SWISH, LINE], [SWISH], [LINE], [RELU, LINE], [SWISH, FACTOR, SIGMOID], [SIGMOID, SWISH], [LINE, SWISH])
ROUNDED = ([STEPS], [RELU, SWISH, LINE, WIDE], [STEPS, SIGMOID])

MODULES = (
    *(convolution, convolution_depthwise, convolution_planar, convolution_staged, convolution_winograd),
    *(bottleneck, conv_transpose),
)


def left_in_the_list(q, registers, lanes):
    """Stand for ``float_end`` as if registers took bounds alone."""
    return FloatEnd(registers.low, registers.high, rest=blocked_posts(q, registers.taken))


def problem(device, implementation, primitive, arrays, arity, fused):
    layouts, constant = [Layout.of(a) for a in arrays], tuple(range(1, arity))
    return pose(device, implementation, primitive, layouts, arity=arity, fused=fused, constant=constant)


def check_bits(engine, monkeypatch, implementation, primitive, arrays, arity, fused):
    """Compare the bits of both ways, of numbers and of what is none."""
    q = problem(engine.info, implementation, primitive, arrays, arity, fused)
    for special in (None, np.nan, np.inf, -np.inf, 3e38):
        given = [a.copy() for a in arrays]
        if implementation is ConvWinograd:
            vectors = q.inputs[1].shape[-1] // 16
            (given[1],) = WinogradWeights(vectors, primitive.strides[0]).reference(given[1])
        if special is not None:
            given[0][0, 0, 1, 2] = special
        here = run_tiles(engine, implementation, q, given)
        with monkeypatch.context() as patch:
            for module in MODULES:
                patch.setattr(module, "float_end", left_in_the_list)
            there = run_tiles(engine, implementation, q, given)
        # Which NaN it is depends on the order of operands.
        np.testing.assert_array_equal(np.isnan(here), np.isnan(there))
        np.testing.assert_array_equal(np.nan_to_num(here).view(np.int32), np.nan_to_num(there).view(np.int32))


def arrays_of(*shapes):
    rng = np.random.default_rng(len(shapes))
    return [rng.standard_normal(shape).astype(np.float32) * 2 for shape in shapes]


@pytest.mark.opencl
@pytest.mark.parametrize("posts", [*ENDS, *ROUNDED], ids=lambda posts: " ".join(p.function for p in posts))
def test_convolutions_of_blocks_make_the_bits_of_the_list(engine, monkeypatch, posts):
    arrays = arrays_of((1, 20, 5, 17), (48, 20, 1, 1), (48,), (1, 48, 5, 17))
    fused = [Fused(p) for p in posts]
    check_bits(engine, monkeypatch, ConvFsv16, POINT, arrays[:3], 3, fused)
    check_bits(engine, monkeypatch, ConvFsv16, POINT, arrays, 3, [Fused(Eltwise("add"), (3,)), *fused])


@pytest.mark.opencl
def test_sums_that_are_no_numbers_and_computed_apart_make_the_bits_of_the_list(engine, monkeypatch):
    window = Convolution((1, 1), (8, 8), ((8, 8), (8, 8)))
    arrays = arrays_of((1, 16, 9, 17), (32, 16, 3, 3), (32,))
    q = problem(engine.info, ConvFsv16, window, arrays, 3, ())
    assert ConvFsv16.plan(q).steps[0].descriptor.skips, "what lies in the padding is not read"
    check_bits(engine, monkeypatch, ConvFsv16, window, arrays, 3, [Fused(SWISH), Fused(LINE)])


@pytest.mark.opencl
@pytest.mark.parametrize("width", [3, 17])
def test_depthwise_convolutions_make_the_bits_of_the_list(engine, monkeypatch, width):
    window = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), 32)
    arrays = arrays_of((1, 32, 5, width), (32, 1, 3, 3), (32,))
    check_bits(engine, monkeypatch, DepthwiseFsv16, window, arrays, 3, [Fused(SWISH), Fused(LINE)])


@pytest.mark.opencl
@pytest.mark.parametrize("stride", [1, 2])
def test_tiles_of_winograd_make_the_bits_of_the_list(engine, monkeypatch, stride):
    window = Convolution((stride, stride), (1, 1), ((1, 1), (1, 1)))
    arrays = arrays_of((1, 16, 7, 9), (32, 16, 3, 3), (32,))
    for posts in ([RELU, SWISH, LINE], [STEPS], [RELU, WIDE, SIGMOID]):
        check_bits(engine, monkeypatch, ConvWinograd, window, arrays, 3, [Fused(p) for p in posts])
    shape = (1, 32, -(-7 // stride), -(-9 // stride))
    fused = [Fused(Eltwise("add"), (3,)), Fused(RELU), Fused(STEPS)]
    check_bits(engine, monkeypatch, ConvWinograd, window, [*arrays, *arrays_of(shape)], 3, fused)


@pytest.mark.opencl
def test_transposed_convolutions_make_the_bits_of_the_list(engine, monkeypatch):
    window = ConvTranspose((2, 2), (1, 1), ((0, 0), (0, 0)), (0, 0))
    arrays = arrays_of((1, 16, 3, 5), (16, 32, 2, 2), (32,))
    for posts in ([RELU, SWISH, LINE], [STEPS], [RELU, WIDE, SIGMOID]):
        check_bits(engine, monkeypatch, ConvTransposeFsv16, window, arrays, 3, [Fused(p) for p in posts])


@pytest.mark.opencl
def test_the_first_layer_makes_the_bits_of_the_list(engine, monkeypatch):
    window = Convolution((2, 2), (1, 1), ((1, 1), (1, 1)))
    arrays = arrays_of((1, 3, 9, 20), (32, 3, 3, 3), (32,))
    check_bits(engine, monkeypatch, ConvPlanar, window, arrays, 3, [Fused(SWISH), Fused(LINE)])


@pytest.mark.opencl
def test_convolutions_with_operations_in_front_make_the_bits_of_the_list(engine, monkeypatch):
    arrays = arrays_of((1, 32, 5, 17), (48, 32, 1, 1), (48,), (1, 32, 1, 1))
    fused = [Fused(Eltwise("mul"), (3,), 0, "pre"), Fused(SWISH), Fused(LINE)]
    check_bits(engine, monkeypatch, ConvStaged, POINT, arrays, 3, fused)


@pytest.mark.opencl
@pytest.mark.parametrize("projects", [True, False])
def test_bottlenecks_make_the_bits_of_the_list(engine, monkeypatch, projects):
    shapes = ((1, 24, 9, 20), (64, 24, 1, 1), (64,), (64, 1, 3, 3), (64,), (32, 64, 1, 1), (32,))
    arrays = arrays_of(*shapes)[: 7 if projects else 5]
    window = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), 64)
    made = Bottleneck(window, (SWISH, LINE), (SWISH, FACTOR) if projects else (), projects=projects)
    between = bottleneck.between

    def left(q, activations, lanes):
        end = between(q, activations, lanes)
        line = end.line and (Activation("linear", *end.line),)
        posts = tuple(map(Fused, (SWISH, *line))) if end.gate else ()
        alone = problem(q.device, ConvFsv16, POINT, arrays_of((1, 16, 1, 1), (16, 16, 1, 1)), 2, posts)
        return FloatEnd(end.low, end.high, rest=blocked_posts(alone))

    with monkeypatch.context() as patch:
        q = problem(engine.info, BottleneckFsv16, made, arrays, len(arrays), [Fused(SWISH), Fused(LINE)])
        here = run_tiles(engine, BottleneckFsv16, q, arrays)
        patch.setattr(bottleneck, "between", left)
        patch.setattr(bottleneck, "float_end", left_in_the_list)
        there = run_tiles(engine, BottleneckFsv16, q, arrays)
    np.testing.assert_array_equal(here.view(np.int32), there.view(np.int32))


@pytest.mark.parametrize(
    ("posts", "channels", "taken"),
    [
        ([SWISH, LINE], 32, 2),
        ([SWISH, LINE], 33, 1),
        ([SWISH, FACTOR], 33, 2),
        ([RELU, SWISH, LINE], 32, 2),
        ([SIGMOID, SWISH], 32, 0),
        ([SWISH, SIGMOID, LINE], 32, 1),
    ],
)
def test_registers_take_what_leads_the_list_and_fills_no_lane_without_a_channel(posts, channels, taken):
    arrays = arrays_of((1, 16, 4, 4), (channels, 16, 1, 1))
    q = problem(DeviceInfo(), ConvFsv16, POINT, arrays, 2, [Fused(p) for p in posts])
    end = float_end(q, in_registers(q), (channels - 1) % 16 + 1)
    assert (end.gate is not None) + (end.line is not None) == taken
    assert len(end.rest) + taken + (posts[0] is RELU) == len(posts)
    assert ConvFsv16.plan(q).steps[0].post == end.rest


def test_what_registers_take_is_found_once_for_all_sizes():
    def end(height):
        arrays = arrays_of((1, 16, height, 4), (32, 16, 1, 1))
        q = problem(DeviceInfo(), ConvFsv16, POINT, arrays, 2, POSTS)
        return float_end(q, in_registers(q), 16)

    assert end(3) is end(5)
    assert end(3).fields("") is end(5).fields("")


POSTS = (Fused(SWISH), Fused(LINE))
