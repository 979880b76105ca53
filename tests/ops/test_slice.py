"""Slices and splits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split
from tests.support.check_op import check_op
from tests.support.onnx_case import agree

BIG = 2**31 - 1
CASES = [
    ((1, 0), (3, 2), None, None),
    ((1,), (-1,), (1,), None),
    ((-3, 2), (BIG, 0), (2, 0), (1, -1)),
    ((BIG,), (-BIG,), (2,), (-1,)),
    ((0,), (BIG,), (2,), (2,)),
    ((3,), (-BIG,), (2,), (-2,)),
    ((2,), (2,), (1,), None),
    ((-9,), (-BIG,), (1,), (-2,)),
]


@pytest.mark.parametrize("opset", [10, 11, 13])
@pytest.mark.parametrize("case", CASES)
def test_slices_agree_with_onnxruntime(case, opset, rng):
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    inputs = [x, *(None if v is None else np.array(v, np.int64) for v in case)]
    while inputs[-1] is None:
        inputs.pop()
    agree("Slice", inputs, opset=opset, constant=range(1, len(inputs)))


@given(
    st.lists(
        st.tuples(st.integers(0, 6), *[st.integers(-9, 9)] * 2, st.sampled_from([-3, -2, -1, 1, 2, 3])), max_size=3
    )
)
def test_binding_keeps_what_onnx_slices_and_does_nothing_twice(rows):
    shape = tuple(d for d, *_ in rows)
    x = np.arange(np.prod(shape)).reshape(shape)
    loose = Slice(*(tuple(column) for column in zip(*(row[1:] for row in rows), strict=True))) if rows else Slice()
    bound = loose.bind([Layout.of(x)], [x]).primitive
    want = x[tuple(slice(max(a, -d) if s < 0 else a, b, s) for d, a, b, s in rows)]
    assert bound.sizes == want.shape
    np.testing.assert_array_equal(bound.reference(x)[0], want)
    assert bound.bind([Layout.of(x)], [x]).primitive == bound


@pytest.mark.parametrize("opset", [7, 9])
def test_old_slices_agree_with_onnxruntime(opset, rng):
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    agree("Slice", [x], opset=opset, starts=[1, -3], ends=[3, BIG], axes=[0, 2])
    agree("Slice", [x], opset=opset, starts=[1, -3], ends=[3, -1])


@pytest.mark.parametrize("opset", [7, 11, 13, 18])
def test_splits_agree_with_onnxruntime(opset, rng):
    x = rng.standard_normal((2, 6)).astype(np.float32)
    sizes = {"split": [1, 2, 3]} if opset < 13 else {}
    given = [np.array([1, 2, 3], np.int64)] if opset >= 13 else []
    agree("Split", [x, *given], opset=opset, outputs=3, axis=1, constant=(1,), **sizes)
    agree("Split", [x], opset=opset, outputs=3, axis=1, **({"num_outputs": 3} if opset >= 18 else {}))


def test_a_split_that_does_not_divide_makes_the_last_part_smaller(rng):
    agree("Split", [rng.standard_normal((7, 2)).astype(np.float32)], opset=18, outputs=3, num_outputs=3)


def test_refuses_parts_that_do_not_make_up_the_axis(rng):
    x = rng.standard_normal((7, 2)).astype(np.float32)
    with pytest.raises(ShapeError, match="do not make up"):
        agree("Split", [x, np.array([3, 3], np.int64)], opset=13, outputs=2, constant=(1,))


TYPES = [DType.F32, DType.F16, DType.F64, DType.I64, DType.I32, DType.U8, DType.BOOL]


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
def test_every_implementation_copies_exactly(dtype, engine):
    parts = Slice((1, 0, 4), (3, 19, -6), (1, 2, -2))
    check_op(engine, parts, (3, 19, 5), dtype=dtype, families=["normal"])
    rows = Slice((0, 8, 2), (3, -10, 37), (1, -1, 1))
    check_op(engine, rows, (3, 9, 40), dtype=dtype, families=["normal"])
    check_op(engine, Split(1, (1, 16, 2)), (3, 19, 5), dtype=dtype, families=["normal"])
    check_op(engine, Split(0, (3, 0)), (3, 2), dtype=dtype, families=["normal"])
