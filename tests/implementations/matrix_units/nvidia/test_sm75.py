"""Kernels for NVIDIA GPUs of compute capability 7.5, in the emulator: smaller products, copies that are waited for."""

import re
from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.errors import ClgraphError
from clgraph.implementations.matrix_units.nvidia import products
from clgraph.implementations.matrix_units.nvidia.tiles import F16, F16X3, F32, S8, Tiling, best_tiling, tiles_for
from clgraph.ops.attention import Attention
from clgraph.ops.convolution import Convolution
from clgraph.ops.matmul import MatMul
from clgraph.selector.query import SM80
from clgraph.selector.sources import kernel_text
from tests.implementations.matrix_units.nvidia.test_attention import scale_of
from tests.ops.test_quantized_convolution import check as check_bytes
from tests.ops.test_quantized_convolution import conv
from tests.support.check_op import check_op
from tests.support.ptx.compiler import why_no_machine
from tests.support.ptx.emulator import EmulationError, run

pytestmark = [
    pytest.mark.opencl,
    pytest.mark.skipif(why_no_machine() is not None, reason=str(why_no_machine())),
]
NAMES = {F16: "nvidia_f16", F32: "nvidia_f32", F16X3: "nvidia_f16x3"}
WINDOW = Convolution((2, 1), (1, 2), ((1, 0), (1, 2)))


@pytest.fixture(scope="module")
def engine():
    """A T4 to those who choose kernels, with kernels that have PTX emulated."""
    from tests.conftest import absent
    from tests.support.ptx.engine import EmulatedEngine

    try:
        return EmulatedEngine("f16x3", base=frozenset({"nvidia_ptx", "sm70", "sm75"}), compute_units=40, flops=8.1e12)
    except ClgraphError as error:
        absent("pocl", error)


@pytest.fixture
def tiled(monkeypatch, own_classes):
    """Return a function that makes implementations take a tile and a number of parts."""
    return lambda tile, parts: monkeypatch.setattr(products, "best_tiling", lambda *_: Tiling(tile, parts, 1e-6))


def _ulps(product, terms):
    """Return what the header of the tile allows, and one for the bias; of f16x3, for twice as many truncations."""
    return terms + 1 if product != F16X3 else 112 + terms / 128 + 1


def _multiply(engine, tile, terms=72):
    """Check a product of matrices on tails of *tile* at every edge."""
    scale = lambda a, b: (  # noqa: E731
        np.abs(a) @ np.abs(b)
        + 2.0**-21 * (np.abs(a).max() * np.abs(b).sum(-2) + np.abs(b).max() * np.abs(a).sum(-1)[:, None])
    )
    check_op(
        engine,
        MatMul(),
        (tile.rows + 5, terms),
        (terms, tile.columns + 8),
        ulps=_ulps(tile.product, terms),
        scale=scale,
        dtype=DType.F16 if tile.product == F16 else DType.F32,
        constant=(1,),
        families=("normal", "wide"),
        only=[f"matmul.{NAMES[tile.product]}"],
    )


def _small(engine, product):
    return next(t for t in tiles_for(engine.info, product) if (t.rows, t.columns) == (64, 64))


def _bytes(engine, tile, **more):
    side, window = 17 if tile.rows > 128 else 12, conv((1, 1), (1, 1), ((1, 1), (0, 0)), zero=-9)
    case = (1, 80, side, side), (tile.columns + 4, 80, 3, 1), window
    check_bytes(engine, case, only=["quantized_convolution.nvidia"], **more)


def test_products_are_within_their_bounds_and_those_of_bytes_exact(engine, tiled):
    for product in NAMES:
        tiled(_small(engine, product), 1)
        count = len(engine.ran)
        _multiply(engine, _small(engine, product))
        assert {passes for entry, _, passes in engine.ran[count:] if entry == "matmul_nvidia"} <= {0.0, 1.0}
    tiled(_small(engine, S8), 2)
    _bytes(engine, _small(engine, S8))


@pytest.mark.slow
def test_so_they_are_in_every_tile(engine, tiled):
    for product in (*NAMES, S8):
        for tile in tiles_for(engine.info, product):
            tiled(tile, 1)
            if product == S8:
                _bytes(engine, tile)
            else:
                _multiply(engine, tile)


@pytest.mark.slow
def test_convolutions_make_what_they_make_elsewhere(engine):
    for product, name in NAMES.items():
        x, w = (2, 8, 9, 8), (12, 8, 3, 2)
        check_op(
            engine,
            WINDOW,
            x,
            w,
            ulps=_ulps(product, 48),
            scale=lambda a, b: (
                WINDOW.reference(np.abs(a), np.abs(b))[0] + 2.0**-21 * 96 * np.abs(a).max() * np.abs(b).max()
            ),
            dtype=DType.F16 if product == F16 else DType.F32,
            constant=(1,),
            families=("normal", "wide"),
            only=[f"convolution.{name}"],
        )


@pytest.mark.slow
def test_attention_is_within_its_bound(engine):
    primitive = Attention(0.25, True)
    check_op(
        engine,
        primitive,
        (2, 3, 70, 40),
        (2, 3, 90, 40),
        (2, 3, 90, 24),
        ulps=1,
        scale=lambda *a: scale_of(primitive, *a),
        dtype=DType.F16,
        families=("normal", "wide"),
        only=["attention.nvidia"],
    )


FAULTS = {
    "the second half of k twice": (
        F16,
        r"MMA_F16_8\(c, \(a\)\[0\], \(a\)\[1\], b0\)",
        "MMA_F16_8(c, (a)[2], (a)[3], b1)",
    ),
    "rows exchanged": (F16, r"\(a\)\[0\], \(a\)\[1\]", "(a)[1], (a)[0]"),
    "other halves of b": (F16, r"\(a\)\[3\], b1", "(a)[3], b0"),
    "a barrier less": (F16, r"(COPY_WAIT\(WAITING\);[\s\\]*)barrier\(CLK_LOCAL_MEM_FENCE\);", r"\1"),
    "rows of bytes exchanged": (S8, r"\(c\)\[0\], \(c\)\[1\], \(a\)\[2\]", "(c)[2], (c)[3], (a)[2]"),
    "other bytes of b": (S8, r"\(a\)\[3\], b1", "(a)[3], b0"),
}


@pytest.mark.slow
def test_planted_faults_are_found(engine, tiled, monkeypatch):
    text = kernel_text("matmul/matmul_nvidia.cl")
    for fault, (product, pattern, instead) in FAULTS.items():
        assert re.sub(pattern, instead, text) != text, fault
        monkeypatch.setattr(engine, "change", lambda t, p=pattern, i=instead: re.sub(p, i, t))
        tile = _small(engine, product)
        tiled(tile, 1)
        with pytest.raises((EmulationError, AssertionError)):
            _bytes(engine, tile) if product == S8 else _multiply(engine, tile, 200)


def test_tiles_are_those_of_other_gpus_in_two_stages_and_take_longer(engine):
    later = replace(engine.info, features=engine.info.features | SM80)
    for product in (F16, F32, F16X3, S8):
        here, there = tiles_for(engine.info, product), tiles_for(later, product)
        assert [replace(t, stages=2, sm80=False) for t in there] == list(here)
        assert {t.macros["PTX_75"] for t in here} == {1}
        assert not any("PTX_75" in t.macros for t in there)
    sizes = products.ProductSizes(4096, 4096, 4096, 1)
    assert best_tiling(engine.info, F16, sizes).seconds == 3 * best_tiling(later, F16, sizes).seconds


# Fragments as "Matrix Fragments for mma.m16n8k8" and ".m8n8k16" of the PTX manual draw them.
GROUP, IN_GROUP = np.arange(32) // 4, np.arange(32) % 4


def _words(array):
    return np.ascontiguousarray(array).view(np.uint32).reshape(-1)


def _run(body, *arrays):
    head = f'#define PTX_75 1\n#line 1 "ptx.clh"\n{kernel_text("ptx.clh")}\n#line 2 "test"\n'
    parameters = ", ".join(f"__global uint* x{i}" for i in range(len(arrays)))
    run(
        f"{head}__kernel void k({parameters}) {{ const int lane = get_local_id(0); {body} }}", "k", arrays, (32,), (32,)
    )


def test_the_smaller_products_are_those_of_the_manual(rng):
    a, b = rng.standard_normal((16, 8)).astype(np.float16), rng.standard_normal((8, 8)).astype(np.float16)
    pairs = IN_GROUP[:, None] * 2 + np.arange(2)
    words = np.stack(
        [_words(a[GROUP[:, None] + 8 * r, pairs]) for r in range(2)] + [_words(b[pairs, GROUP[:, None]])], 1
    )
    result = np.zeros(128, np.uint32)
    _run(
        "float c[4] = {0, 0, 0, 0}; MMA_F16_8(c, x0[3 * lane], x0[3 * lane + 1], x0[3 * lane + 2]);"
        "for (int i = 0; i < 4; i++) x1[4 * lane + i] = as_uint(c[i]);",
        _words(words),
        result,
    )
    want = a.astype(np.float64) @ b.astype(np.float64)
    for i in range(4):
        exact = want[GROUP + 8 * (i // 2), IN_GROUP * 2 + i % 2]
        assert (np.abs(result.view(np.float32).reshape(32, 4)[:, i] - exact) <= 2.0**-23 * np.abs(exact)).all()

    a, b = rng.integers(-128, 128, (8, 16), np.int8), rng.integers(-128, 128, (16, 8), np.int8)
    fours = IN_GROUP[:, None] * 4 + np.arange(4)
    words = np.stack([_words(a[GROUP[:, None], fours]), _words(b[fours, GROUP[:, None]])], 1)
    result = np.zeros(64, np.uint32)
    _run(
        "int c0 = 5, c1 = 5; MMA_S8_16(c0, c1, x0[2 * lane], x0[2 * lane + 1]);"
        "x1[2 * lane] = (uint)c0; x1[2 * lane + 1] = (uint)c1;",
        _words(words),
        result,
    )
    want = a.astype(np.int32) @ b.astype(np.int32) + 5
    for i in range(2):
        np.testing.assert_array_equal(result.view(np.int32).reshape(32, 2)[:, i], want[GROUP, IN_GROUP * 2 + i])
