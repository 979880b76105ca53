"""Products of rows with their experts' matrices against float64: fewer rows than experts and more."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.expert_matmul import ExpertMatMulRows
from clgraph.ops.expert_matmul import ExpertMatMul
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import U32, pose, post_list, run_tiles

CASES = [
    # rows, depth, columns, experts, constant, transposed, list
    (1, 40, 64, 5, True, False, ""),
    (4, 300, 130, 9, True, True, "relu"),
    (4, 16, 130, 9, False, True, "add"),
    (70, 33, 17, 4, True, True, "row sigmoid"),
    (70, 48, 128, 4, False, False, "hard_swish"),
    (23, 1030, 200, 3, True, False, "add relu"),
]


@pytest.mark.opencl
@pytest.mark.parametrize("spread", ["some", "one", "first"])
@pytest.mark.parametrize("case", CASES)
def test_tiles_multiply_by_the_rows_expert(case, spread, engine):
    rows, depth, columns, experts, constant, transposed, words = case
    rng = np.random.default_rng(rows + depth)
    chosen = {"some": rng.integers(-1, experts + 1, rows), "one": np.full(rows, experts - 2), "first": np.zeros(rows)}
    numbers = np.sort(chosen[spread]).astype((np.int64, np.int32)[depth % 2])
    w = rng.standard_normal((experts, columns, depth) if transposed else (experts, depth, columns)).astype(np.float32)
    arrays = [rng.standard_normal((rows, depth)).astype(np.float32), w, numbers]
    fused, slope = post_list(words, (rows, columns), arrays, rng)
    primitive, layouts = ExpertMatMul(transposed), [Layout.of(x) for x in arrays]
    q = pose(engine.info, ExpertMatMulRows, primitive, layouts, arity=3, fused=fused, constant=(1,) * constant)
    got = run_tiles(engine, ExpertMatMulRows, q, arrays, misalign=depth % 2)
    exact = [x if x.dtype.kind == "i" else x.astype(np.float64) for x in arrays]
    (want,) = primitive.reference(*exact[:3])
    (size,) = primitive.reference(*(np.abs(x) for x in exact[:2]), exact[2])
    for step in q.post:
        want = step.apply(want, exact)
    # Sums of `depth` products, and a few roundings of the list, of numbers below 4 and the result.
    bound = U32 * (depth * size * slope + 8 * (np.abs(want) + 4))
    assert (np.abs(got - want) <= bound).all(), (np.abs(got - want) / bound).max()


@pytest.mark.opencl
def test_an_experts_rows_have_the_bits_of_a_product_of_them_alone(engine):
    """Whatever block of rows they come in: sums run over k in order."""
    rng = np.random.default_rng(0)
    a, w = rng.standard_normal((40, 96)).astype(np.float32), rng.standard_normal((3, 96, 100)).astype(np.float32)
    numbers = np.sort(rng.integers(0, 3, 40))

    def computed(rows: slice) -> np.ndarray:
        arrays = [a[rows], w, numbers[rows]]
        layouts = [Layout.of(x) for x in arrays]
        q = pose(engine.info, ExpertMatMulRows, ExpertMatMul(), layouts, arity=3, constant=(1,))
        return run_tiles(engine, ExpertMatMulRows, q, arrays)

    alone = np.concatenate([computed(slice(i, i + 1)) for i in range(40)])
    np.testing.assert_array_equal(computed(slice(0, 40)), alone)


def test_what_is_no_float32_is_refused():
    layouts = [Layout(DType.F16, (5, 4)), Layout(DType.F16, (3, 4, 2)), Layout(DType.I64, (5,))]
    q = pose(DeviceInfo(), ExpertMatMulRows, ExpertMatMul(), layouts, arity=3)
    assert "f16" in str(ExpertMatMulRows.refusal(q))
