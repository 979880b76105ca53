"""Convolutions for NVIDIA GPUs, in the emulator: what it runs is what a plan launches."""

from dataclasses import replace

import numpy as np
import pytest

import clgraph.implementations.matrix_units.nvidia.convolution as module
from clgraph.core.dtype import DType
from clgraph.core.format import channels_last
from clgraph.core.layout import Layout
from clgraph.implementations.gpu.products import ProductSizes
from clgraph.implementations.matrix_units.nvidia import products
from clgraph.implementations.matrix_units.nvidia.tiles import F16, TF32X3, TILES, PtxTile, Tiling, best_tiling
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.query import SM80, Query
from tests.support.check_op import check_op, run_raw
from tests.support.combinations import each_value
from tests.support.gpus import H200

F16_NAME, F32_NAME, TF32X3_NAME = "convolution.nvidia_f16", "convolution.nvidia_f32", "convolution.nvidia_tf32x3"
F16X3_NAME = "convolution.nvidia_f16x3"
NAMES = pytest.mark.parametrize("name", [F16_NAME, F32_NAME, TF32X3_NAME, F16X3_NAME])


def _conv(strides, dilations, pads, groups=1):
    return Convolution(strides, dilations, pads, groups)


CASES = {
    "pointwise": ((2, 24, 5, 7), (36, 24, 1, 1), _conv((1, 1), (1, 1), ((0, 0), (0, 0)))),
    "three_by_three": ((1, 16, 9, 8), (72, 16, 3, 3), _conv((1, 1), (1, 1), ((1, 1), (1, 1)))),
    "strided": ((2, 8, 11, 9), (20, 8, 3, 3), _conv((2, 2), (1, 1), ((1, 1), (1, 1)))),
    "uneven": ((2, 8, 9, 8), (12, 8, 3, 2), _conv((2, 1), (1, 2), ((1, 0), (1, 2)))),
    "groups": ((1, 48, 6, 6), (16, 24, 3, 3), _conv((1, 1), (1, 1), ((1, 1), (1, 1)), 2)),
    "one_axis": ((2, 8, 30), (12, 8, 4), _conv((2,), (3,), ((1, 4),))),
}


def _dtype(name):
    return DType.F16 if name == F16_NAME else DType.F32


def _units(name, terms):
    """Return what the kernel's header allows a sum of *terms* products, and one for the bias."""
    return {TF32X3_NAME: 144 + terms / 128, F16X3_NAME: 64 + terms / 128}.get(name, terms) + 1


def _scale(primitive, name=""):
    def scale(x, w, b):
        x, w = np.abs(x), np.abs(w)
        size = primitive.reference(x, w, np.abs(b))[0]
        if name != F16X3_NAME:
            return size
        # 2^-39 (max |x| sum |w| + max |w| sum |x|), in the units of the rest of the bound: 64 times 2^-24.
        other = (
            x.max() * primitive.reference(np.ones_like(x), w)[0] + w.max() * primitive.reference(x, np.ones_like(w))[0]
        )
        return size + 2.0**-21 * other

    return scale


def _check(engine, name, x, w, primitive, extra=0, **more):
    families = ("normal", "wide")
    units = _units(name, int(np.prod(w[1:]))) + extra
    check = {"scale": _scale(primitive, name), "families": families, "dtype": _dtype(name), **more}
    check_op(engine, primitive, x, w, w[:1], ulps=units, constant=(1, 2), only=[name], **check)


@pytest.mark.opencl
@NAMES
@pytest.mark.parametrize("case", CASES)
def test_the_product_is_within_the_bound_of_its_sum(case, name, nvidia_engine):
    _check(nvidia_engine, name, *CASES[case])


FEW = {
    "first": ((2, 3, 11, 9), (20, 3, 3, 3), _conv((2, 2), (1, 1), ((1, 1), (1, 1)))),
    "seven_by_seven": ((1, 3, 16, 15), (72, 3, 7, 7), _conv((2, 2), (1, 1), ((3, 3), (3, 3)))),
    "groups": ((1, 20, 6, 6), (8, 10, 3, 3), _conv((1, 1), (1, 2), ((1, 1), (2, 2)), 2)),
    "one_axis": ((2, 5, 30), (12, 5, 4), _conv((2,), (3,), ((1, 4),))),
}


@pytest.mark.opencl
@pytest.mark.parametrize("name", ["convolution.nvidia_gather_f16", "convolution.nvidia_gather_f32"])
@pytest.mark.parametrize("case", FEW)
def test_channels_that_are_no_whole_chunks_are_read_one_by_one(case, name, nvidia_engine):
    _check(nvidia_engine, name, *FEW[case], dtype=DType.F16 if name.endswith("f16") else DType.F32)


@pytest.mark.opencl
@each_value(tile=TILES, parts=[1, 3])
@pytest.mark.usefixtures("own_classes")
def test_every_tile_makes_the_sums_in_one_part_or_several(tile, parts, nvidia_engine, monkeypatch):
    monkeypatch.setattr(products, "best_tiling", lambda *_: Tiling(tile, parts, 1e-6))
    name = next(c.name for c in module.__dict__.values() if getattr(c, "product", None) == tile.product)
    # Pixels and outputs beyond a tile, terms that fill no last step; a part is one more sum.
    side = 17 if tile.rows > 128 else 12
    case = (1, 40, side, side), (tile.columns + 4, 40, 3, 1), _conv((1, 1), (1, 1), ((1, 1), (0, 0)))
    count = len(nvidia_engine.ran)
    _check(nvidia_engine, name, *case, extra=parts, families=("normal",))
    ran = nvidia_engine.ran[count:]
    assert {grid[1] for _, grid, _ in ran} == {parts}
    # Eight rows' chunks lie in different banks.
    assert all(passes in (0.0, 1.0) for _, _, passes in ran)


@pytest.mark.opencl
@NAMES
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.usefixtures("own_classes")
def test_bias_residual_and_activation_are_applied_in_order(parts, name, nvidia_engine, monkeypatch):
    chosen = products.best_tiling
    monkeypatch.setattr(products, "best_tiling", lambda *a: Tiling(chosen(*a).tile, parts, 1e-6))
    x, w, primitive = CASES["three_by_three"]
    y = primitive.infer([Layout(DType.F32, s) for s in (x, w)])[0].shape
    fused = [(Eltwise("add"), [y], 0), (Activation("relu"), [], 0), (Eltwise("mul"), [(y[1], 1, 1)], 0)]
    scale = lambda x, w, b, r, m: (_scale(primitive, name)(x, w, b) + np.abs(r)) * np.abs(m)  # noqa: E731
    _check(nvidia_engine, name, x, w, primitive, extra=3 + parts, fused=fused, scale=scale)


@pytest.mark.opencl
@pytest.mark.parametrize(("of_x", "of_w"), [(1e-30, 1.0), (1e30, 1e-35), (1e-25, 1e20), (3e36, 1e-9), (1e-42, 1.0)])
def test_sums_of_halves_hold_the_range_of_floats(of_x, of_w, nvidia_engine):
    """Halves alone would overflow, or lose all, by each of these; the last are denormal floats."""
    draw = {0: lambda rng, s: of_x * rng.standard_normal(s), 1: lambda rng, s: of_w * rng.standard_normal(s)}
    x, w, primitive = CASES["three_by_three"]
    check = {"scale": lambda x, w: _scale(primitive, F16X3_NAME)(x, w, np.zeros(1)), "constant": (1,), "draw": draw}
    units = _units(F16X3_NAME, int(np.prod(w[1:])))
    check_op(nvidia_engine, primitive, x, w, ulps=units, only=[F16X3_NAME], families=("normal",), **check)


@pytest.mark.opencl
def test_one_large_value_costs_the_others_what_the_bound_says(nvidia_engine):
    def outlier(rng, shape):
        x = rng.standard_normal(shape)
        x[0, 3, 2, 2] = 1e7
        return x

    x, w, primitive = CASES["three_by_three"]
    _check(nvidia_engine, F16X3_NAME, x, w, primitive, draw={0: outlier}, families=("normal",))


@pytest.mark.opencl
def test_an_image_has_the_same_bits_whatever_the_others_of_its_batch_are(nvidia_engine, rng):
    """Three images lie in one tile: 64 pixels."""
    last, primitive = channels_last(4), Convolution((1, 1), (1, 1), ((1, 1), (1, 1)))
    x, w = rng.standard_normal((3, 4, 5, 16)).astype(np.float32), rng.standard_normal((8, 3, 3, 16)).astype(np.float32)
    layouts = tuple(Layout(DType.F32, s, last) for s in ((3, 16, 4, 5), (8, 16, 3, 3)))
    y = primitive.infer([v.plain() for v in layouts])[0].with_format(last)
    q = Query(primitive, layouts, (y,), nvidia_engine.info, 2, constant=frozenset({1}))
    other = x.copy()
    other[1] *= np.float32(1e6)
    found = [run_raw(nvidia_engine, module.ConvolutionNvidiaF16x3, q, [a, w])[0] for a in (x, other)]
    before, after = (v.reshape(3, -1) for v in found)
    np.testing.assert_array_equal(before[[0, 2]], after[[0, 2]])
    assert (before[1] != after[1]).any()


@pytest.mark.opencl
@pytest.mark.parametrize("late", [False, True])
def test_the_sums_do_not_depend_on_when_copies_land_or_on_the_order_of_warps(late, nvidia_engine, monkeypatch):
    monkeypatch.setattr(nvidia_engine, "late", late)
    for seed in (2, 3):
        monkeypatch.setattr(nvidia_engine, "seed", seed)
        _check(nvidia_engine, F16_NAME, *CASES["three_by_three"])


def _refusal(implementation, x, w, primitive, device=H200, dtype=DType.F16):
    last = channels_last(len(x))
    layouts = (Layout(dtype, x, last), Layout(dtype, w))
    y = primitive.infer([v.plain() for v in layouts])[0].with_format(last)
    return implementation.refusal(Query(primitive, layouts, (y,), device, 2, constant=frozenset({1})))


def test_other_devices_are_refused_with_what_is_missing():
    case = CASES["three_by_three"]
    half, tf32x3 = module.ConvolutionNvidiaF16, module.ConvolutionNvidiaTf32x3
    assert _refusal(half, *case) is None
    assert _refusal(half, *case, replace(H200, features=frozenset({"nvidia_ptx", "sm70"}))) == "needs sm75"
    assert _refusal(half, *case, replace(H200, features=frozenset())) == "needs nvidia_ptx, sm75"
    assert _refusal(tf32x3, *case, dtype=DType.F32) == "needs tf32x3"
    assert "bytes of local memory" in str(_refusal(half, *case, replace(H200, local_bytes=32 << 10)))


def test_channels_that_are_no_whole_chunks_are_refused():
    narrow = (1, 12, 9, 8), (72, 12, 3, 3), CASES["three_by_three"][2]
    assert "multiples of 8 inputs" in str(_refusal(module.ConvolutionNvidiaF16, *narrow))
    assert _refusal(module.ConvolutionNvidiaF32, *narrow, dtype=DType.F32) is None


def test_large_problems_are_worth_finding_what_to_scale_halves_by():
    device, last = replace(H200, features=SM80 | {"f16x3"}), channels_last(4)
    for batch, better in ((64, True), (1, False)):
        x, w = Layout(DType.F32, (batch, 256, 14, 14), last), Layout(DType.F32, (256, 256, 3, 3))
        q = Query(CASES["three_by_three"][2], (x, w), (x,), device, 2, constant=frozenset({1}))
        assert (module.ConvolutionNvidiaF16x3.predicted(q) < module.ConvolutionNvidiaF32.predicted(q)) is better


def test_tiles_follow_the_problem():
    large = best_tiling(H200, F16, ProductSizes(64 * 28 * 28, 512, 1152, 1))
    assert (large.tile.rows, large.tile.columns, large.split_k) == (128, 128, 1)
    assert best_tiling(H200, F16, ProductSizes(64 * 56 * 56, 64, 576, 1)).tile.columns == 64
    small = best_tiling(H200, F16, ProductSizes(49, 512, 4608, 1))
    assert small.split_k > 1
    assert small.tile.rows < 128
    assert best_tiling(H200, TF32X3, ProductSizes(49, 512, 64, 1)).split_k == 1
    # The sums of two parts must lie in one allocation.
    assert best_tiling(replace(H200, max_alloc=2 * 49 * 512 * 4 - 1), F16, ProductSizes(49, 512, 4608, 1)).split_k == 1


@pytest.mark.parametrize("tile", TILES, ids=lambda t: t.unit)
def test_every_tile_fits_into_the_local_memory_of_every_gpu(tile: PtxTile):
    assert tile.local_bytes <= 48 << 10
    # A work-item copies a chunk of whole rows, and rows repeat their exchange after eight of them.
    stride = tile.items // tile.chunks
    assert tile.rows % stride == 0
    assert tile.columns % stride == 0
    assert stride % 8 == 0
