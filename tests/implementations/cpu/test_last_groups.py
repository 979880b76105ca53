"""The last group of output channels of a convolution computes the halves of blocks that it has, to the same bits."""

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.blocks import BLOCKED, MICROS, PLANAR, blocks_of, ids
from clgraph.implementations.cpu.bottleneck import BottleneckFsv16
from clgraph.implementations.cpu.bottleneck_walk import walk_of
from clgraph.implementations.cpu.convolution import ConvFsv16
from clgraph.implementations.cpu.convolution_sizes import cheapest_sizes
from clgraph.implementations.cpu.convolution_staged import ConvStaged
from clgraph.ops.activation import Activation
from clgraph.ops.bottleneck import Bottleneck
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import pose, run_tiles, several_at_a_time

POINT = Convolution((1, 1), (1, 1), ((0, 0), (0, 0)))
WINDOW = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)))
AROUND = ((0, 0), (0, 0), (1, 1), (2, 1))


def arrays_of(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def computed(engine, implementation, primitive, arrays, arity, fused=(), halo=(), *, loads=False):
    """Return the query and its result, all inputs but the first constant; *loads*: of products that load an operand."""
    info = several_at_a_time(engine.info)
    info = replace(info, features=info.features | {"operand_loads"}) if loads else info
    constant = tuple(range(1, arity))
    layouts = [Layout.of(a) for a in arrays]
    q = pose(info, implementation, primitive, layouts, arity=arity, fused=fused, constant=constant, out_halo=halo)
    return q, run_tiles(engine, implementation, q, arrays)


@pytest.mark.opencl
@pytest.mark.parametrize("loads", [False, True])
@pytest.mark.parametrize("primitive", [POINT, WINDOW])
@pytest.mark.parametrize("outputs", [8, 17, 24, 31, 39, 48, 72, 80, 88, 112])
def test_convolutions_make_the_bits_of_whole_groups(engine, primitive, outputs, loads):
    kernel = (3, 3) if primitive is WINDOW else (1, 1)
    x, w, b, add = arrays_of((1, 37, 9, 28), (128, 37, *kernel), (128,), (1, 128, 9, 28), seed=outputs)
    fused = [Fused(Eltwise("add"), (3,)), Fused(Activation("clip", -1.0, 2.0))]
    _, whole = computed(engine, ConvFsv16, primitive, [x, w, b, add], 3, fused)
    given = [x, w[:outputs], b[:outputs], add[:, :outputs]]
    q, part = computed(engine, ConvFsv16, primitive, given, 3, fused, AROUND, loads=loads)
    block = cheapest_sizes(q).block
    if loads and q.device.simd >= 16:
        # One block at a time; the halves of the last one, where it has few channels.
        assert block.nb == 1
        assert block.last == (outputs % 16 in range(1, 9))
    else:
        assert outputs in (8, 31) or block.last or q.device.simd < 16
    np.testing.assert_array_equal(part, whole[:, :outputs])


@pytest.mark.opencl
@pytest.mark.parametrize("outputs", [24, 40, 72, 80])
def test_convolutions_with_operations_in_front_make_the_bits_of_whole_groups(engine, outputs):
    x, w, b, gate = arrays_of((1, 48, 9, 28), (128, 48, 1, 1), (128,), (1, 48, 1, 1), seed=outputs)
    fused = [Fused(Eltwise("mul"), (3,), 0, "pre")]
    _, whole = computed(engine, ConvStaged, POINT, [x, w, b, gate], 3, fused)
    _, part = computed(engine, ConvStaged, POINT, [x, w[:outputs], b[:outputs], gate], 3, fused)
    np.testing.assert_array_equal(part, whole[:, :outputs])


@pytest.mark.opencl
@pytest.mark.parametrize("loads", [False, True])
@pytest.mark.parametrize(("hidden", "outputs"), [(72, 24), (144, 24), (88, 40), (144, 80)])
def test_bottlenecks_make_the_bits_of_whole_groups(engine, hidden, outputs, loads):
    wide, made = -(-hidden // 32) * 32, 96
    shapes = ((1, 24, 9, 28), (wide, 24, 1, 1), (wide,), (wide, 1, 3, 3), (wide,), (made, wide, 1, 1), (made,))
    arrays = arrays_of(*shapes, seed=hidden)
    # Hidden channels that only the wide one has: those behind them add nothing.
    arrays[5][:, hidden:] = 0.0

    def bottleneck(channels):
        return Bottleneck(Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), channels), (Activation("relu"),))

    _, whole = computed(engine, BottleneckFsv16, bottleneck(wide), arrays, 7)
    x, e, eb, d, db, p, pb = arrays
    narrow = [x, e[:hidden], eb[:hidden], d[:hidden], db[:hidden], p[:outputs, :hidden], pb[:outputs]]
    q, part = computed(engine, BottleneckFsv16, bottleneck(hidden), narrow, 7, loads=loads)
    walk = walk_of(q)
    if loads and q.device.simd >= 16:
        assert (walk.expand.nb, walk.project.nb) == (1, 1)
    else:
        assert (walk.expand.last and walk.project.last) or q.device.simd < 16
    np.testing.assert_array_equal(part, whole[:, :outputs])


@pytest.mark.parametrize("simd", [16, 8])
@pytest.mark.parametrize("halves", range(1, 13))
def test_every_last_group_is_put_together_from_instances_that_compute_its_channels(simd, halves):
    lanes, blocks = (8, (halves + 1) // 2) if halves % 2 else (16, halves // 2)
    for width in range(1, 60):
        for block in blocks_of(simd, BLOCKED, 1, width, blocks, 64, lanes=lanes):
            here = halves - 2 * block.nb * (-(-blocks // block.nb) - 1)
            assert block.last == 0 or here <= block.last < 2 * block.nb
            table = ids(simd, BLOCKED, 1, block.nb, block.last)
            left = block.chunk_width or -(-width // block.chunks)
            while left:
                wide = table.widths >> 4 * min(left, 15) & 15
                number = (table.low if wide < 8 else table.high) >> 8 * (wide % 8) & 255
                defines = dict(MICROS.of(simd)[number].defines)
                assert defines["UR"] == wide > 0
                assert defines["NB"] == block.nb
                assert defines.get("HALVES", 0) == block.last
                left -= wide


def test_few_channels_cost_less_and_groups_of_the_convolution_bands_and_planes_are_computed_whole():
    def cost(lanes, blocks=2):
        return min(b.cost for b in blocks_of(8, BLOCKED, 1, 28, blocks, 64, lanes=lanes))

    assert cost(8) < cost(9) == cost(16)
    assert min(b.cost for b in blocks_of(16, BLOCKED, 1, 28, 5, 64, packed=2, lanes=16)) < 3 * min(
        b.cost for b in blocks_of(16, BLOCKED, 1, 28, 2, 64, packed=2)
    )
    assert {b.last for b in blocks_of(16, PLANAR, 1, 28, 2, 64, lanes=8)} == {0}

    def last(primitive, outputs, inputs=64):
        layouts = [Layout.of(a) for a in arrays_of((1, inputs, 14, 14), (outputs, inputs // primitive.groups, 1, 1))]
        q = pose(DeviceInfo("pocl:0", simd=16), ConvFsv16, primitive, layouts, arity=2, constant=(1,))
        return cheapest_sizes(q).block.last

    assert [last(POINT, n) for n in (24, 40, 48, 64)] == [3, 1, 2, 0]
    assert last(Convolution((1, 1), (1, 1), ((0, 0), (0, 0)), 2), 96) == 0
    assert last(Convolution((1, 1), (1, 1), ((0, 0), (0, 0)), apart=True, bands=2), 48) == 0
