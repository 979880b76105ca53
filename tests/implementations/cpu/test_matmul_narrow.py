"""Products with right sides of halves and bfloat16: those of the same floats, bit for bit, and what is refused."""

import ml_dtypes
import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.matmul import MatMulRows
from clgraph.implementations.cpu.matmul_narrow import MatMulNarrow
from clgraph.ops.matmul import MatMul
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import check_tiles, pose, post_list, run_tiles

F = np.float32
TYPES = (np.float16, ml_dtypes.bfloat16)
CASES = [
    # a, b, transposed a and b, bias, list
    ((1, 70), (70, 130), False, False, (130,), "add"),
    ((1, 2050), (2050, 33), False, False, None, ""),
    ((7, 1100), (20, 1100), False, True, (7, 1), "relu"),
    ((96, 5), (96, 64), True, False, None, "row"),
    ((2, 3, 40), (40, 17), False, False, (17,), "hard_swish"),
    ((131, 64), (200, 64), False, True, None, ""),
    ((8, 1030), (1030, 70), False, False, None, ""),
]


def problem(case, dtype, seed):
    a, b, transpose_a, transpose_b, bias, words = case
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(s).astype(F) for s in (a, b, *([bias] if bias else []))]
    arrays[1] = arrays[1].astype(dtype)
    primitive, arity = MatMul(transpose_a, transpose_b), len(arrays)
    out = primitive.infer([Layout.of(x) for x in arrays])[0].shape
    fused, slope = post_list(words, out, arrays, rng)
    return primitive, arrays, arity, fused, slope


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
def test_products_agree_with_float64(engine, dtype):
    for seed, case in enumerate(CASES):
        primitive, arrays, arity, fused, slope = problem(case, dtype, seed)
        (size,) = primitive.reference(*(np.abs(x).astype(np.float64) for x in arrays[:arity]))
        depth = primitive.sizes(case[0], case[1])[2]
        # n products with fma, a rounding for the bias and a few for the list, on values below size + 4.
        check_tiles(
            engine,
            MatMulNarrow,
            primitive,
            arrays,
            slope * (depth + 8),
            arity=arity,
            size=size + 4,
            constant=(1,),
            fused=fused,
            misalign=seed,
        )


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_read_are_exactly_the_floats(engine, dtype):
    rng = np.random.default_rng(7)
    for rows in (1, 3):
        b = rng.standard_normal((2049, 70)).astype(dtype)
        b[:40] *= dtype(6e-6)  # denormal halves
        arrays = [rng.standard_normal((rows, 2049)).astype(F), b]
        found = []
        for implementation, right in ((MatMulNarrow, b), (MatMulRows, b.astype(F))):
            q = pose(
                engine.info, implementation, MatMul(), [Layout.of(arrays[0]), Layout.of(right)], arity=2, constant=(1,)
            )
            found.append(run_tiles(engine, implementation, q, [arrays[0], right]))
        np.testing.assert_array_equal(*found)
        b[3, :3] = np.inf, -np.inf, np.nan
        q = pose(engine.info, MatMulNarrow, MatMul(), [Layout.of(x) for x in arrays], arity=2, constant=(1,))
        got, signs = run_tiles(engine, MatMulNarrow, q, arrays), np.sign(arrays[0][:, 3])
        np.testing.assert_array_equal(got[:, 0], np.inf * signs)
        np.testing.assert_array_equal(got[:, 1], -np.inf * signs)
        assert np.isnan(got[:, 2]).all()
        np.testing.assert_array_equal(got[:, 3:], found[0][:, 3:])


def test_other_right_sides_are_refused():
    def reason(a, b, constant=(1,)):
        layouts = [Layout.of(np.zeros(*a)), Layout.of(np.zeros(*b))]
        return str(
            MatMulNarrow.refusal(pose(DeviceInfo(), MatMulNarrow, MatMul(), layouts, arity=2, constant=constant))
        )

    half, single = np.float16, F
    assert reason(((3, 4), single), ((4, 5), half)) == "None"
    assert "constant matrix" in reason(((3, 4), single), ((4, 5), half), constant=())
    assert "constant matrix" in reason(((3, 4), single), ((4, 5), single))
    assert "constant matrix" in reason(((2, 3, 4), single), ((2, 4, 5), half))
    assert "float32 beside it" in reason(((3, 4), half), ((4, 5), half))


def cut(workers, rows, columns, depth):
    device = DeviceInfo(simd=16, workers=workers)
    layouts = [Layout(DType.F32, (rows, depth)), Layout(DType.F16, (depth, columns))]
    q = pose(device, MatMulNarrow, MatMul(), layouts, arity=2, constant=(1,))
    (step,) = MatMulNarrow.plan(q).steps
    return step.descriptor.spans, step.descriptor.tiers, step.tickets


def test_rows_are_cut_only_where_that_saves_more_than_making_the_floats_again():
    assert cut(2, 128, 384, 1536) == (1, 6, 6)  # three groups of columns for each worker
    assert cut(2, 512, 384, 384) == (1, 6, 6)
    assert cut(1, 512, 64, 384) == (1, 1, 1)
    assert cut(2, 512, 64, 384)[:2] == (2, 1)  # one worker would have nothing to do
    spans, tiers, count = cut(16, 512, 384, 1536)
    assert (spans, tiers, count) == (8, 6, 48)
