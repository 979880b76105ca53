"""Convolutions of 8-bit integers for NVIDIA GPUs, in the emulator."""

import re
from dataclasses import replace

import pytest

import clgraph.implementations.matrix_units.nvidia.quantized_convolution as module
from clgraph.core.dtype import DType
from clgraph.core.format import channels_last
from clgraph.core.layout import Layout
from clgraph.implementations.gpu.products import ProductSizes
from clgraph.implementations.matrix_units.nvidia import products
from clgraph.implementations.matrix_units.nvidia.tiles import BYTE_TILES, S8, PtxTile, Tiling, best_tiling
from clgraph.ops.static_quantize import StaticQuantize
from clgraph.selector.query import Query
from clgraph.selector.sources import kernel_text
from tests.ops.test_quantized_convolution import DRAWN, ENDS, EXACT, TYPES, check, conv, fused
from tests.support.combinations import each_value, ends_of_each
from tests.support.gpus import H200
from tests.support.ptx.compiler import to_ptx, why_not
from tests.support.ptx.emulator import EmulationError
from tests.support.ptx.engine import EmulatedEngine

NAME = "quantized_convolution.nvidia"
CASES = {
    "pointwise": ((2, 48, 5, 7), (36, 48, 1, 1), conv((1, 1), (1, 1), ((0, 0), (0, 0)))),
    "three_by_three": ((1, 16, 9, 8), (72, 16, 3, 3), conv((1, 1), (1, 1), ((1, 1), (1, 1)), zero=-128)),
    "strided": ((2, 16, 11, 9), (20, 16, 3, 3), conv((2, 2), (1, 1), ((1, 1), (1, 1)), zero=7)),
    "uneven": ((2, 16, 9, 8), (12, 16, 3, 2), conv((2, 1), (1, 2), ((1, 0), (1, 2)), zero=127)),
    "groups": ((1, 64, 6, 6), (16, 32, 3, 3), conv((1, 1), (1, 1), ((1, 1), (1, 1)), 2, zero=-3)),
    "one_axis": ((2, 16, 30), (12, 16, 4), conv((2,), (3,), ((1, 4),), zero=11)),
}


@pytest.fixture
def tiled(monkeypatch, own_classes):
    """Return a function that makes the implementation take a tile and a number of parts."""
    return lambda tile, parts: monkeypatch.setattr(products, "best_tiling", lambda *_: Tiling(tile, parts, 1e-6))


@pytest.mark.opencl
@pytest.mark.parametrize("case", CASES)
def test_sums_are_exact_and_scaled_within_the_bound(case, nvidia_engine):
    check(nvidia_engine, CASES[case], only=[NAME])


@pytest.mark.opencl
def test_the_largest_bytes_do_not_overflow(nvidia_engine):
    check(nvidia_engine, CASES["groups"], {**DRAWN, 0: ENDS, 1: ENDS}, only=[NAME])


@pytest.mark.opencl
@each_value(tile=BYTE_TILES, parts=[1, 3])
def test_every_tile_makes_the_sums_in_one_part_or_several(tile, parts, nvidia_engine, tiled):
    tiled(tile, parts)
    # Pixels and outputs beyond a tile, terms that fill no last step.
    side = 17 if tile.rows > 128 else 12
    window = conv((1, 1), (1, 1), ((1, 1), (0, 0)), zero=-9)
    count = len(nvidia_engine.ran)
    check(nvidia_engine, ((1, 80, side, side), (tile.columns + 4, 80, 3, 1), window), only=[NAME])
    ran = nvidia_engine.ran[count:]
    assert {grid[1] for _, grid, _ in ran} == {parts}
    # Eight rows' chunks lie in different banks.
    assert all(passes in (0.0, 1.0) for _, _, passes in ran)


@pytest.mark.opencl
@pytest.mark.parametrize("rounding", [StaticQuantize(0.25, -128), StaticQuantize(0.125, 100, DType.U8)])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_residual_an_activation_and_rounding_are_applied_exactly(parts, rounding, nvidia_engine, tiled):
    tiled(BYTE_TILES[3], parts)
    case = CASES["three_by_three"]
    check(nvidia_engine, case, EXACT, fused=fused(case, rounding), ulps=0, only=[NAME])


FAULTS = {
    "pads that are zeros": (r" : outside, 16\)", " : outside, inside ? 16 : 0)"),
    "terms beyond the last that meet other weights": (r"unit < units \? columns : 0", "columns"),
    "a barrier less": (r"(COPY_WAIT\(WAITING\);[\s\\]*)barrier\(CLK_LOCAL_MEM_FENCE\);", r"\1"),
    "a wait that leaves one group too many": (r"COPY_WAIT\(WAITING\)", "COPY_WAIT(WAITING + 1)"),
    "no start": (r"sum \+ \*\(__global const int4\*\)\(start \+ channel\)", "sum"),
    "scales of other outputs": (r"\(scale \+ channel\)", "(scale + channel / 8 * 4)"),
    "another order of the rows of b": (r"\(lane & 7\) \+ \(lane >> 4\) \* 8", "(lane & 7) + ((lane >> 3) & 1) * 8"),
}


@pytest.mark.opencl
@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_planted_faults_are_found(fault, nvidia_engine, tiled, monkeypatch):
    if not isinstance(nvidia_engine, EmulatedEngine):
        pytest.skip("faults are planted where a hang does no harm")
    tiled(BYTE_TILES[3], 1)
    if fault is not None:
        pattern, instead = FAULTS[fault]
        changed = lambda text: re.sub(pattern, instead, text)  # noqa: E731
        text = kernel_text("quantized_convolution/quantized_convolution_nvidia.cl")
        assert changed(text) != text
        monkeypatch.setattr(nvidia_engine, "change", changed)
    found = []
    for late, seed in ((True, 1), (False, 2)):
        monkeypatch.setattr(nvidia_engine, "late", late)
        monkeypatch.setattr(nvidia_engine, "seed", seed)
        try:
            check(nvidia_engine, ((1, 80, 9, 8), (72, 80, 3, 3), CASES["three_by_three"][2]), only=[NAME])
        except (EmulationError, AssertionError) as error:
            found.append(error)
            break
    assert bool(found) == (fault is not None)


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("tile", ends_of_each(BYTE_TILES, lambda t: t.product), ids=lambda t: t.unit)
def test_sums_stay_in_registers_where_clang_makes_ptx_of_them(tile: PtxTile):
    x, w, primitive = CASES["pointwise"]
    q = _query(x, w, primitive)
    (step, *_) = module.QuantizedConvolutionNvidia.plan(q).steps
    macros = {**dict(step.jit.macros), **{k: str(v) for k, v in tile.macros.items()}}
    text = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    ptx = to_ptx(f"{text}{kernel_text(step.source)}", "sm_80")
    body = ptx[ptx.index(".entry quantized_convolution_nvidia") :]
    # What an index that is not a constant would put into memory.
    assert "__local_depot" not in body
    assert body.count("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32") == (
        tile.warp_sizes[0] // 16 * (tile.warp_sizes[1] // 8) * (tile.chunks // 2)
    )


def _query(x, w, primitive, device=H200):
    last = channels_last(len(x))
    inputs = [Layout(t, s) for t, s in zip(TYPES, (x, w, *[w[:1]] * 3), strict=True)]
    y = primitive.infer(inputs)[0].with_format(last)
    layouts = (inputs[0].with_format(last), *inputs[1:])
    return Query(primitive, layouts, (y,), device, 5, constant=frozenset({1, 2, 3, 4}))


def test_other_devices_and_channels_are_refused_with_what_is_missing():
    refusal = module.QuantizedConvolutionNvidia.refusal
    assert refusal(_query(*CASES["three_by_three"])) is None
    assert refusal(_query(*CASES["three_by_three"], replace(H200, features=frozenset()))) == "needs nvidia_ptx, sm75"
    assert "bytes of local memory" in refusal(_query(*CASES["three_by_three"], replace(H200, local_bytes=16 << 10)))
    narrow = (1, 8, 9, 8), (72, 8, 3, 3), CASES["three_by_three"][2]
    assert "multiples of 16 inputs" in refusal(_query(*narrow))


def test_tiles_follow_the_problem():
    large = best_tiling(H200, S8, ProductSizes(64 * 28 * 28, 512, 1152, 1))
    assert (large.tile.rows, large.tile.columns, large.split_k) == (128, 128, 1)
    assert best_tiling(H200, S8, ProductSizes(49, 512, 4608, 1)).split_k > 1


@pytest.mark.parametrize("tile", BYTE_TILES, ids=lambda t: t.unit)
def test_every_tile_fits_into_the_local_memory_of_every_gpu(tile: PtxTile):
    assert tile.local_bytes <= 48 << 10
    stride = tile.items // tile.chunks
    assert tile.rows % stride == tile.columns % stride == stride % 8 == 0
