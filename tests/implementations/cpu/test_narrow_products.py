"""Products with constant right sides of less than 16 columns, and what follows: many rows are one run of floats."""

import numpy as np
import pytest

from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from tests.support.check_op import check_op

pytestmark = pytest.mark.opencl

SHAPES = [
    ((101, 7), (7, 2)),
    ((77, 7), (7, 1)),
    ((500, 20), (20, 15)),
    ((2, 65, 33), (33, 10)),
    ((3, 40, 5), (3, 5, 4)),
    ((7, 40), (40, 9)),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_bias_and_operations_follow_each_element(shapes, engine):
    a, b = shapes
    rows, columns, depth = a[-2], b[-1], a[-1]
    cases = (
        [],
        [(Eltwise("mul"), [(rows, 1)], 0), (Activation("relu"), [], 0)],
        [(Eltwise("add"), [(rows, columns)], 0), (Eltwise("max"), [()], 0)],
        [(Eltwise("mul"), [(*a[:-2], 1, columns)], 0)],
    )

    def size(x, y, bias, *operands):
        # Every product and sum, and the bias, behind it factors and addends that are at most as large as they are.
        total = np.abs(x) @ np.abs(y) + np.abs(bias)
        for operand in operands:
            total = total * np.maximum(1, np.abs(operand)) + np.abs(operand)
        return total

    for fused in cases:
        check_op(
            engine, MatMul(), *shapes, (columns,), ulps=depth + 4, scale=size, constant=(1, 2), fused=fused
        )  # fmt: skip
