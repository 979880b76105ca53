"""Tiles between floats and bytes against the references, whose bits they have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.layout import Layout
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.byte_lookup import ByteLookupFsv16, ByteLookupRows
from clgraph.implementations.cpu.concat_bytes import ConcatBytes
from clgraph.implementations.cpu.cost import OWN_CACHE
from clgraph.implementations.cpu.dequantize import DequantizeFsv16, DequantizeRows
from clgraph.implementations.cpu.pooling_bytes import PoolBytes
from clgraph.implementations.cpu.quantize import QuantizeFsv16, QuantizeRows
from clgraph.implementations.cpu.resize_bytes import ResizeBytes
from clgraph.implementations.cpu.resize_map import COORDINATES, RULES
from clgraph.implementations.cpu.static_quantize import StaticQuantizeFsv16, StaticQuantizeRows
from clgraph.ops.activation import Activation
from clgraph.ops.byte_lookup import ByteLookup
from clgraph.ops.concat import Concat
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.pooling import Pooling
from clgraph.ops.quantize import Quantize
from clgraph.ops.resize import Resize
from clgraph.ops.static_quantize import DequantizeAdd, StaticQuantize
from clgraph.selector.costs import Rates
from clgraph.selector.query import DeviceInfo
from tests.support.features import needs_bytes
from tests.support.run_tiles import any_halo, pose, run_tiles

SHAPES = ((1, 3, 9, 70), (2, 37, 5, 8), (1, 16, 33), (1, 48, 1, 1))


@pytest.fixture
def rng(engine):
    needs_bytes(engine)
    return np.random.default_rng(0)


def both(engine, implementation, primitive, arrays, formats, **how):
    q = pose(engine.info, implementation, primitive, [Layout.of(a) for a in arrays], arity=len(arrays), formats=formats)
    return run_tiles(engine, implementation, q, arrays, **how), primitive.reference(*arrays)[0]


@pytest.mark.opencl
def test_floats_become_the_bytes_of_the_reference(engine, rng):
    scale, zero = np.float32(0.037), np.uint8(121)
    static, computed = StaticQuantize(float(scale), int(zero), DType.U8), Quantize(0, dtype=DType.U8)
    for shape in SHAPES:
        # Halves, and what is beyond the bytes and an int.
        x = (rng.integers(-700, 700, shape) / 2 * scale).astype(np.float32)
        x.flat[:4] = 1e30, -1e30, 3e9, -3e9
        for implementation, primitive, arrays in (
            (StaticQuantizeFsv16, static, [x]),
            (QuantizeFsv16, computed, [x, scale, zero]),
        ):
            q = pose(
                engine.info, implementation, primitive, [Layout.of(np.asarray(a)) for a in arrays], arity=len(arrays)
            )
            for formats in implementation.formats(q.with_layouts(tuple(v.plain() for v in q.inputs), q.outputs)):
                misalign = 5 if formats.inputs[0] is not None and formats.inputs[0].is_plain else 0
                given = list(map(np.asarray, arrays))
                got, want = both(engine, implementation, primitive, given, formats, misalign=misalign)
                np.testing.assert_array_equal(got, want)
        if x.size % 16 == 0:
            for implementation, primitive, arrays in (
                (StaticQuantizeRows, static, [x]),
                (QuantizeRows, computed, [x, np.asarray(scale), np.asarray(zero)]),
            ):
                # A caller's array is read in place.
                for misalign in (0, 3):
                    got, want = both(engine, implementation, primitive, arrays, None, misalign=misalign)
                    np.testing.assert_array_equal(got, want)


@pytest.mark.opencl
def test_bytes_become_floats_and_sums_of_them_bytes_again(engine, rng):
    scale, zero = np.array(0.25, np.float32), np.array(7, np.uint8)
    last = StaticQuantize(0.5, 40, DType.U8)
    for shape in SHAPES:
        x, r = (rng.integers(0, 256, shape).astype(np.uint8) for _ in range(2))
        got, want = both(engine, DequantizeFsv16, Dequantize(0), [x, scale, zero], None)
        np.testing.assert_array_equal(got, want)
        fused = (Fused(DequantizeAdd(0.125, 3), (3,)), Fused(Activation("relu")), Fused(last))
        arrays = [x, scale, zero, r]
        q = pose(engine.info, DequantizeFsv16, Dequantize(0), [Layout.of(a) for a in arrays], arity=3, fused=fused)
        q = q.with_layouts(q.inputs, (Layout(DType.U8, shape, q.outputs[0].format),))
        summed = np.maximum(want + (r.astype(np.float32) - 3) * np.float32(0.125), 0)
        np.testing.assert_array_equal(run_tiles(engine, DequantizeFsv16, q, arrays), last.reference(summed)[0])
        # The same bytes once more, behind a rounding.
        steps = Activation("fake_quantize", 0.3, -90.0), DequantizeAdd(0.07, 200)
        more = (*fused[:-1], Fused(steps[0]), Fused(steps[1], (3,)), fused[-1])
        twice = steps[1].reference(steps[0].reference(summed)[0], r)[0]
        got = run_tiles(engine, DequantizeFsv16, replace(q, fused=more), arrays)
        np.testing.assert_array_equal(got, last.reference(twice)[0])
        if x.size % 16 == 0:
            got, _ = both(engine, DequantizeRows, Dequantize(0), [x, scale, zero], None)
            np.testing.assert_array_equal(got, want)


@pytest.mark.opencl
def test_floats_of_bytes_have_a_halo_of_zeros_around_them_where_windows_read_one(engine, rng):
    scale, zero = np.array(0.25, np.float32), np.array(7, np.uint8)
    for shape in SHAPES:
        x = rng.integers(0, 256, shape).astype(np.uint8)
        q = pose(engine.info, DequantizeFsv16, Dequantize(0), [Layout.of(a) for a in (x, scale, zero)], arity=3)
        (y,) = q.outputs
        halo = any_halo(rng, len(shape))
        around = q.with_layouts(q.inputs, (y.with_halo(halo),))
        (want,) = Dequantize(0).reference(x, scale, zero)
        np.testing.assert_array_equal(run_tiles(engine, DequantizeFsv16, around, [x, scale, zero]), want)
        bytes_ = replace(q.outputs[0], dtype=DType.U8).with_halo(((0, 0), (0, 0), *((1, 1),) * (len(shape) - 2)))
        rounded = replace(q, fused=(Fused(StaticQuantize(0.5, 40, DType.U8)),), outputs=(bytes_,))
        assert "halo around floats alone" in (DequantizeFsv16.refusal(rounded) or "")


def test_rows_of_other_formats_are_refused():
    blocked = Layout(DType.F32, (1, 16, 4, 4), Format((0, 2, 3, 1)))
    from clgraph.selector.query import DeviceInfo, Query

    device = DeviceInfo(features=frozenset({"byte_pairs"}))
    q = Query(StaticQuantize(0.5, 0, DType.U8), (blocked,), (Layout(DType.U8, (1, 16, 4, 4)),), device, 1)
    assert StaticQuantizeRows.limits(q) == "moves dense plain tensors without operations behind it"


@pytest.mark.opencl
def test_bytes_are_looked_up_alone_and_behind_roundings(engine, rng):
    entries = rng.integers(0, 256, 256).astype(np.uint8)
    rounding = StaticQuantize(0.5, 40, DType.U8)
    for i, shape in enumerate(SHAPES):
        # What functions of bytes begin with is often one byte.
        entries[: (0, 100, 15, 256, 16)[i % 5]] = entries[0]
        x = rng.integers(0, 256, shape).astype(np.uint8)
        for implementation in (ByteLookupFsv16, ByteLookupRows)[: 1 + (x.size % 16 == 0)]:
            got, want = both(engine, implementation, ByteLookup(), [x, entries], None)
            np.testing.assert_array_equal(got, want)
        floats = rng.uniform(-30, 120, shape).astype(np.float32)
        fused = (Fused(ByteLookup(), (1,)),)
        arrays = [floats, entries]
        q = pose(engine.info, StaticQuantizeFsv16, rounding, [Layout.of(a) for a in arrays], arity=1, fused=fused)
        got = run_tiles(engine, StaticQuantizeFsv16, q, arrays)
        np.testing.assert_array_equal(got, entries[rounding.reference(floats)[0]])


@pytest.mark.opencl
def test_bytes_are_joined_picked_and_compared_in_blocks(engine, rng):
    def draw(*shape):
        return rng.integers(0, 256, shape).astype(np.uint8)

    cases = [
        (ConcatBytes, Concat(1), [draw(2, c, 5, 33) for c in channels]) for channels in ((24,) * 4, (16, 3, 50, 7))
    ]
    cases.append((ConcatBytes, Concat(1), [draw(1, 20, 200), draw(1, 13, 200)]))
    for coordinates in COORDINATES:
        for nearest in RULES:
            way = {"coordinates": coordinates, "nearest": nearest}
            cases.append(
                (ResizeBytes, Resize(**way, shape=(2, 20, 13, 7), scales=(1, 1, 2.6, 0.7)), [draw(2, 20, 5, 10)])
            )
    cases.append((ResizeBytes, Resize(shape=(1, 7, 12), scales=(1, 1, 3.0)), [draw(1, 7, 4)]))
    for kernel, strides, dilations, pads in (
        ((3, 3), (2, 2), (1, 1), ((1, 1), (1, 1))),
        ((2, 5), (1, 3), (2, 1), ((0, 1), (2, 0))),
        ((4,), (2,), (1,), ((1, 2),)),
    ):
        shape = (2, 35, 19, 12)[: 2 + len(kernel)]
        cases.append((PoolBytes, Pooling("max", kernel, strides, dilations, pads), [draw(*shape)]))
    for implementation, primitive, arrays in cases:
        got, want = both(engine, implementation, primitive, arrays, None)
        np.testing.assert_array_equal(got, want, str(primitive))


def test_moves_are_estimated_by_whole_blocks_and_by_what_a_core_does_not_keep():
    features = frozenset({"byte_pairs"})
    device = DeviceInfo(name="pocl:0", simd=16, features=features, rates=Rates(1e11, ((1, 1e10),), cached=1e9))
    begin = device.costs.step_seconds

    def seconds(implementation, primitive, dtype, shape):
        layouts = [Layout(*x) for x in ((dtype, shape), (DType.F32, ()), (DType.U8, ()))]
        return implementation.cost(pose(device, implementation, primitive, layouts, arity=3))

    rounds, widens = (QuantizeFsv16, Quantize(0, dtype=DType.U8), DType.F32), (DequantizeFsv16, Dequantize(), DType.U8)
    few, whole = (seconds(*rounds, (1, c, 64, 64)) for c in (3, 16))
    assert few == whole
    assert seconds(*widens, (1, 16, 64, 64)) - begin == pytest.approx(2 * (whole - begin))
    # Floats are read, and lines of bytes fetched before they are written.
    nbytes = (4 + 2) * 32 * 256 * 256
    waited = (nbytes - OWN_CACHE) / (1e9 * device.workers)
    assert seconds(*rounds, (1, 32, 256, 256)) - begin == pytest.approx(waited, rel=1e-3)
