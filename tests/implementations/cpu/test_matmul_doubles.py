"""Products of doubles: rows and columns behind whole blocks, transposed sides, batches along two axes, biases."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.matmul import MatMul
from tests.support.check_op import check_op

pytestmark = pytest.mark.opencl

PROBLEMS = [
    ((1, 40), (40, 33), ()),
    ((8, 7), (7, 16), (16,)),
    ((101, 130), (130, 40), (101, 1)),
    ((5, 2, 9), (5, 9, 17), (5, 1, 17)),
    ((2, 50, 6), (6, 32), (1,)),
    ((2, 1, 7, 9), (1, 3, 9, 17), (2, 3, 1, 17)),
    ((3, 2, 2, 5), (3, 1, 5, 4), ()),
    ((2, 51, 131), (2, 131, 3), (3,)),
    ((5, 20), (20, 1), ()),
]


@pytest.mark.parametrize("a_is_transposed", [False, True])
@pytest.mark.parametrize("b_is_transposed", [False, True])
@pytest.mark.parametrize(("a", "b", "bias"), PROBLEMS, ids=str)
def test_doubles_are_within_the_bound(engine, a, b, bias, a_is_transposed, b_is_transposed):
    depth = a[-1]
    shapes = [(*x[:-2], x[-1], x[-2]) if turned else x for x, turned in ((a, a_is_transposed), (b, b_is_transposed))]
    primitive = MatMul(a_is_transposed, b_is_transposed)

    def size(*inputs):
        return primitive.reference(*map(np.abs, inputs))[0]

    # In u = 2^-53, half the unit: depth products and the bias on both sides.
    found = check_op(
        engine, primitive, *shapes, *([bias] if bias else []), dtype=DType.F64, ulps=depth + 1, scale=size,
        families=("normal",), only=["matmul.doubles"],
    )  # fmt: skip
    assert "matmul.doubles" in found
