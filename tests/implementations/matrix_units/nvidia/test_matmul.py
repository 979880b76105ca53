"""Matrix products for NVIDIA GPUs, in the emulator: what it runs is what a plan launches."""

import numpy as np
import pytest

import clgraph.implementations.matrix_units.nvidia.matmul as module
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.matrix_units.nvidia import products
from clgraph.implementations.matrix_units.nvidia.scales import ScaledEntries, Scales
from clgraph.implementations.matrix_units.nvidia.tiles import TILES, Tiling
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.selector.query import Query
from clgraph.selector.sources import kernel_text
from clgraph.selector.views import View
from tests.support.check_op import check_op, run_raw
from tests.support.combinations import each_value

F16_NAME, F32_NAME, TF32X3_NAME = "matmul.nvidia_f16", "matmul.nvidia_f32", "matmul.nvidia_tf32x3"
F16X3_NAME = "matmul.nvidia_f16x3"
FLOATS = pytest.mark.parametrize("name", [F32_NAME, TF32X3_NAME, F16X3_NAME])


def _check(engine, name, primitive, *shapes, extra=0, terms=0, families=("normal", "wide"), **more):
    k = terms or shapes[0][-1]
    units = {TF32X3_NAME: 144 + k / 128, F16X3_NAME: 64 + k / 128}.get(name, k)  # what the kernel's header allows
    more = {"scale": lambda *a: _size(name, primitive, *map(np.abs, a)), **more}
    dtype = DType.F16 if name == F16_NAME else DType.F32
    check = {"ulps": units + 1 + extra, "dtype": dtype, "families": families, "only": [name], **more}
    check_op(engine, primitive, *shapes, **check)


def _size(name, primitive, a, b, *bias):
    size = primitive.reference(a, b, *bias)[0]
    if name != F16X3_NAME:
        return size
    # 2^-39 (max |a| sum |b| + max |b| sum |a|), in the units of the rest of the bound: 64 times 2^-24.
    ones = (np.ones_like(a), b), (a, np.ones_like(b))
    return size + 2.0**-21 * sum(m * primitive.reference(*o)[0] for m, o in zip((a.max(), b.max()), ones, strict=True))


CASES = {
    "tails": ((37, 24), (24, 44), {}),
    "batch": ((2, 3, 33, 16), (2, 3, 16, 24), {}),
    "broadcast": ((4, 1, 8, 16), (5, 16, 8), {}),
    "weights": ((3, 5, 40), (40, 68), {"constant": (1,)}),
    "one_row": ((1, 72), (72, 136), {"constant": (1,)}),
}


@pytest.mark.opencl
@pytest.mark.parametrize("case", [c for c in CASES if c != "tails"])
def test_halves_by_row_are_within_the_bound_of_their_sum(case, nvidia_engine):
    a, b, more = CASES[case]
    _check(nvidia_engine, F16_NAME, MatMul(), a, b, **more)


@pytest.mark.opencl
@pytest.mark.parametrize("name", [F16_NAME, F32_NAME, TF32X3_NAME, F16X3_NAME])
@pytest.mark.parametrize("case", CASES)
def test_products_by_column_are_within_the_bound_of_their_sum(case, name, nvidia_engine):
    a, b, more = CASES[case]
    _check(nvidia_engine, name, MatMul(transpose_b=True), a, (*b[:-2], b[-1], b[-2]), **more)


@pytest.mark.opencl
@FLOATS
def test_constant_floats_are_asked_for_by_column(name, nvidia_engine):
    _check(nvidia_engine, name, MatMul(), (3, 5, 36), (36, 68), constant=(1,))


@pytest.mark.opencl
@each_value(tile=TILES, parts=[1, 3])
@pytest.mark.usefixtures("own_classes")
def test_every_tile_makes_the_sums_in_one_part_or_several(tile, parts, nvidia_engine, monkeypatch):
    monkeypatch.setattr(products, "best_tiling", lambda *_: Tiling(tile, parts, 1e-6))
    name = next(c.name for c in module.__dict__.values() if getattr(c, "product", None) == tile.product)
    by_column = name != F16_NAME
    b = (tile.columns + 8, 136) if by_column else (136, tile.columns + 8)
    shapes, count = ((tile.rows + 4, 136), b), len(nvidia_engine.ran)
    _check(nvidia_engine, name, MatMul(transpose_b=by_column), *shapes, extra=parts, families=("normal",))
    ran = nvidia_engine.ran[count:]
    assert {grid[1] for _, grid, _ in ran} == {parts}
    assert all(passes in (0.0, 1.0) for _, _, passes in ran)


@pytest.mark.opencl
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("bias", [(44,), (37, 1), (37, 44)])
@pytest.mark.usefixtures("own_classes")
def test_bias_and_fused_operations(bias, parts, nvidia_engine, monkeypatch):
    chosen = products.best_tiling
    monkeypatch.setattr(products, "best_tiling", lambda *a: Tiling(chosen(*a).tile, parts, 1e-6))
    fused = [(Activation("relu"), [], 0), (Eltwise("mul"), [(37, 1)], 0), (Eltwise("add"), [(44,)], 1)]
    primitive = MatMul(transpose_b=True)
    scale = lambda a, b, c, m, s: primitive.reference(*map(np.abs, (a, b, c)))[0] * np.abs(m) + np.abs(s)  # noqa: E731
    shapes = ((37, 24), (44, 24), bias)
    _check(nvidia_engine, F16_NAME, primitive, *shapes, extra=3 + parts, fused=fused, scale=scale)


@pytest.mark.opencl
def test_halves_are_scaled_by_a_largest_value_anywhere(nvidia_engine):
    """Not seen, it would overflow; the last rows are in the last parts of what is searched."""

    def outlier(rng, shape):
        x = rng.standard_normal(shape)
        x[-1, 0] = 1e7
        return x

    case = (520, 256), (8, 256)
    _check(nvidia_engine, F16X3_NAME, MatMul(transpose_b=True), *case, draw={0: outlier}, families=("normal",))


@pytest.mark.opencl
def test_the_largest_finite_magnitude_of_every_entry_is_found(gpu_engine, rng):
    """Short entries by 32 work-items each, long ones in parts by groups. Rows have gaps of larger values."""
    short, long = ((700, 1024), 1), ((3, 20, 1024), 1)
    both, wanted = [], []
    for shape, outer in (short, long):
        x = np.full((*shape[:-1], 1028), 9.0, np.float32)
        x[..., :1024] = rng.uniform(-1, 1, shape)
        x[0, ..., 3], x[-1, ..., 1023], x[1, ..., 5], x[2, ..., 6] = -7.0, 5.0, np.inf, np.nan
        inside = x[..., :1024]
        finite = np.where(np.isfinite(inside), np.abs(inside), 0)
        wanted.append(finite.reshape(shape[0], -1).max(1))
        pitches = tuple(n // 4 for n in x.strides)
        both.append((x, ScaledEntries.of(shape, View(0, pitches), outer)))
    scales = Scales(*(e for _, e in both))
    assert [(e.team, e.parts) for _, e in both] == [(32, 1), (256, 16)]
    step, found = scales.step("scratch0"), np.full(scales.scratch_bytes // 4, np.nan, np.float32)
    held = [gpu_engine.upload(a, "a tensor") for a in (*(x for x, _ in both), found)]
    numbers = gpu_engine.upload(np.array(step.args[-1].values, np.int32), "a table")
    args = [a for memory in held for a in (memory, np.int64(0))]
    kernel = gpu_engine.kernel(f"{step.jit}{kernel_text(step.source)}", step.entry, [*args, numbers])
    kernel.on(gpu_engine.stream, step.grid, step.group)()
    gpu_engine.stream.read(held[2], 0, found)
    gpu_engine.stream.finish()
    _, begin, parts = scales.numbers
    np.testing.assert_array_equal(found[:begin], wanted[0])
    np.testing.assert_array_equal(found[begin:].reshape(3, parts).max(1), wanted[1])


@pytest.mark.opencl
@pytest.mark.parametrize("shape", [(130, 256), (3, 40, 256)])
def test_an_entry_of_a_batch_has_the_same_bits_whatever_the_others_are(shape, nvidia_engine, rng):
    """A row of a single product is one, and so is a matrix of several."""
    x, w = (rng.standard_normal(s).astype(np.float32) for s in (shape, (24, 256)))
    other = x.copy()
    other[1] *= np.float32(1e6)
    layouts = tuple(Layout(DType.F32, a.shape) for a in (x, w))
    primitive = MatMul(transpose_b=True)
    q = Query(primitive, layouts, primitive.infer(layouts), nvidia_engine.info, 2)
    found = [run_raw(nvidia_engine, module.MatMulNvidiaF16x3, q, [a, w])[0] for a in (x, other)]
    before, after = (y.reshape(*shape[:-1], 24) for y in found)
    same = [i for i in range(shape[0]) if i != 1]
    np.testing.assert_array_equal(before[same], after[same])
    assert (before[1] != after[1]).any()
