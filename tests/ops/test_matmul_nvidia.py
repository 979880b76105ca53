"""Matrix products for NVIDIA GPUs, in the emulator: what it runs is what a plan launches."""

import numpy as np
import pytest

import clgraph.ops.matmul_nvidia as module
from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.nvidia_tiles import TILES, Tiling
from clgraph.selector import choose
from tests.support.check_op import check_op

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
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("tile", TILES, ids=lambda t: t.unit)
def test_every_tile_makes_the_sums_in_one_part_or_several(tile, parts, nvidia_engine, monkeypatch):
    choose._plan.cache_clear()
    monkeypatch.setattr(module, "best_tiling", lambda *_: Tiling(tile, parts, 1e-6))
    name = next(c.name for c in module.__dict__.values() if getattr(c, "product", None) == tile.product)
    by_column = name != F16_NAME
    b = (tile.columns + 8, 136) if by_column else (136, tile.columns + 8)
    shapes, count = ((tile.rows + 4, 136), b), len(nvidia_engine.ran)
    _check(nvidia_engine, name, MatMul(transpose_b=by_column), *shapes, extra=parts, families=("normal",))
    choose._plan.cache_clear()
    ran = nvidia_engine.ran[count:]
    assert {grid[1] for _, grid, _ in ran} == {parts}
    assert all(passes in (0.0, 1.0) for _, _, passes in ran)


@pytest.mark.opencl
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("bias", [(44,), (37, 1), (37, 44)])
def test_bias_and_fused_operations(bias, parts, nvidia_engine, monkeypatch):
    choose._plan.cache_clear()
    chosen = module.best_tiling
    monkeypatch.setattr(module, "best_tiling", lambda *a: Tiling(chosen(*a).tile, parts, 1e-6))
    fused = [(Activation("relu"), [], 0), (Eltwise("mul"), [(37, 1)], 0), (Eltwise("add"), [(44,)], 1)]
    primitive = MatMul(transpose_b=True)
    scale = lambda a, b, c, m, s: primitive.reference(*map(np.abs, (a, b, c)))[0] * np.abs(m) + np.abs(s)  # noqa: E731
    shapes = ((37, 24), (44, 24), bias)
    _check(nvidia_engine, F16_NAME, primitive, *shapes, extra=3 + parts, fused=fused, scale=scale)
    choose._plan.cache_clear()
