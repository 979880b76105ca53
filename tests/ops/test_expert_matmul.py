"""Products of rows with their experts' matrices, and the order of rows by expert."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expert_matmul import ExpertMatMul
from clgraph.ops.expert_order import ExpertOrder
from tests.support.check_op import check_op


def ascending(rng, shape):
    """Return numbers of experts, some of which no matrix has."""
    return np.sort(rng.integers(-1, 6, shape))


def test_each_row_is_multiplied_by_the_matrix_of_its_expert(rng):
    a, w = rng.standard_normal((6, 3)), rng.standard_normal((4, 3, 2))
    numbers = np.array([-7, 0, 0, 2, 3, 9])
    (y,) = ExpertMatMul().reference(a, w, numbers)
    for row, expert in enumerate([0, 0, 0, 2, 3, 3]):
        np.testing.assert_allclose(y[row], a[row] @ w[expert], rtol=1e-12)
    (turned,) = ExpertMatMul(transpose_b=True).reference(a, w.swapaxes(1, 2), numbers)
    np.testing.assert_array_equal(turned, y)


@pytest.mark.parametrize(
    "shapes", [((5, 4), (3, 4, 2), (6,)), ((5, 4), (3, 2, 4), (5,)), ((5, 4), (4, 2), (5,)), ((5, 4), (0, 4, 2), (5,))]
)
def test_what_does_not_fit_is_refused(shapes):
    layouts = [Layout(d, s) for d, s in zip((DType.F32, DType.F32, DType.I64), shapes, strict=True)]
    with pytest.raises(ShapeError, match=r"requires a matrix, matrices|is not a row"):
        ExpertMatMul().infer(layouts)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_choices_of_one_expert_stand_together_in_the_order_of_rows(dtype):
    chosen = np.array([[3, 1], [0, 3], [1, 0]], dtype)
    experts, row, place, stands = ExpertOrder().reference(chosen)
    assert experts.tolist() == [0, 0, 1, 1, 3, 3]
    assert row.tolist() == [1, 2, 0, 2, 0, 1]
    assert place.tolist() == [0, 1, 1, 0, 0, 1]
    np.testing.assert_array_equal(experts[stands], chosen)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.F64], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_every_implementation_multiplies_by_the_rows_expert(transposed, dtype, engine):
    for rows, depth, columns, kind, constant in ((37, 19, 130, DType.I64, (1,)), (3, 33, 64, DType.I32, ())):
        w = (5, columns, depth) if transposed else (5, depth, columns)
        posts = [(Eltwise("mul"), [(rows, columns)], 0), (Activation("relu"), [], 0)]
        given = (dtype, dtype, kind, dtype)
        # A sum of `depth` products; the product behind it rounds once, and is a term of the size as well.
        check_op(
            engine,
            ExpertMatMul(transposed),
            (rows, depth),
            w,
            (rows,),
            dtype=given,
            constant=constant,
            fused=posts,
            draw={2: ascending},
            ulps=depth + 2,
            scale=lambda a, w, numbers, m, t=transposed: (
                ExpertMatMul(t).reference(np.abs(a), np.abs(w), numbers)[0] * np.abs(m)
            ),
        )
