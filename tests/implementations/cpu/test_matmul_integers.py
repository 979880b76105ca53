"""Products of integers: rows and columns behind whole blocks, transposed sides, batches along two axes, biases."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.matmul_integers import MatMulIntegers
from clgraph.ops.matmul import MatMul
from clgraph.selector.query import DeviceInfo
from tests.support.check_op import check_op
from tests.support.run_tiles import pose

PROBLEMS = [
    ((1, 40), (40, 33), ()),
    ((8, 7), (7, 16), (16,)),
    ((101, 130), (130, 40), (101, 1)),
    ((5, 2, 9), (5, 9, 17), (5, 1, 17)),
    ((2, 50, 6), (6, 32), (1,)),
    ((2, 1, 7, 9), (1, 3, 9, 17), (2, 3, 1, 17)),
    ((3, 2, 9, 5), (3, 1, 5, 4), ()),
]


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.I32, DType.U32, DType.I64, DType.U64], ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("a", "b", "bias"), PROBLEMS, ids=str)
def test_integers_are_multiplied_as_numpy_does(engine, a, b, bias, turned, dtype):
    limits = np.iinfo(dtype.numpy)
    draw = dict.fromkeys(range(3), lambda rng, of: rng.integers(limits.min, limits.max, of, dtype.numpy, endpoint=True))
    shapes = [(*x[:-2], x[-1], x[-2]) if turned else x for x in (a, b)]
    found = check_op(
        engine, MatMul(turned, turned), *shapes, *([bias] if bias else []), dtype=dtype, draw=draw,
        families=("normal",), only=["matmul.integers"],
    )  # fmt: skip
    assert found == {"matmul.integers": 0.0}


def test_single_sums_are_left_to_the_general_kernel():
    def refusal(left, right):
        layouts = [Layout.of(np.zeros(s, np.int32)) for s in (left, right)]
        return MatMulIntegers.refusal(pose(DeviceInfo(), MatMulIntegers, MatMul(), layouts, arity=2))

    assert "one column" in str(refusal((50, 9), (9, 1)))
    assert "fewer results" in str(refusal((3, 9), (9, 5)))
    assert refusal((4, 9), (9, 4)) is None
