"""Elements of every size picked at places that are data: rows of more than a piece, every kind of axis, batches."""

import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.ops.gather import Gather
from clgraph.ops.gather_elements import GatherElements
from clgraph.ops.gather_nd import GatherND
from clgraph.selector.choose import candidates
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op

pytestmark = pytest.mark.opencl

CASES = (
    (Gather(1), (3, 7), (2, 2100), 7),
    (Gather(0), (5, 2, 1100), (3,), 5),
    (Gather(1), (2, 6, 3), (5,), 9),
    (GatherElements(0), (7, 3, 2100), (2, 2, 2100), 7),
    (GatherElements(2), (3, 4, 9), (2, 3, 2100), 11),
    (GatherElements(2), (3, 3, 3, 4, 3, 4), (2, 2, 4, 3, 2, 3), 3),
    (GatherND(), (3, 3, 2100), (2, 5, 2), 4),
    (GatherND(2), (2, 3, 5, 6), (2, 3, 4, 2), 5),
    (GatherND(), (3, 4, 5, 2, 3, 4), (700, 6), 2),
    (GatherND(1), (3, 9, 8), (3, 700, 1), 11),
    (GatherND(1), (7, 9, 4), (7, 1), 9),
    (Gather(1), (2, 6, 16), (5,), 6),
    (Gather(0), (2, 66000), (3,), 2),
    (Gather(0), (4, 853), (9,), 4),
)
"""Primitive, shapes of x and of the indices, which are drawn from -n to n - 1: some are outside of their axis."""


@pytest.mark.parametrize("dtype", [DType.U8, DType.BF16, DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("index", [DType.I32, DType.I64], ids=str)
def test_elements_of_every_size_are_picked_where_numpy_has_them(engine, index, dtype):
    for primitive, shape, picked, most in CASES:
        name = f"{primitive.kind}.elements"
        draw = {
            0: lambda rng, of: rng.integers(0, 250, of).astype(dtype.numpy),
            1: lambda rng, of, n=most: rng.integers(-n, n, of),
        }
        found = check_op(
            engine, primitive, shape, picked, dtype=(dtype, index), draw=draw, families=("normal",), only=[name]
        )
        assert found == {name: 0.0}, primitive


def test_more_elements_than_32_bits_count_are_left_to_others():
    inputs = (Layout(DType.U8, (1 << 31, 2)), Layout(DType.I64, (3,)))
    q = Query(Gather(0), inputs, Gather(0).infer(inputs), DeviceInfo(kind="cpu"), 2)
    (made,) = (i for i in candidates(q) if i.name == "gather.elements")
    assert made.refusal(q) == "counts elements in 32 bits"


def test_rows_at_one_place_are_one_piece():
    def pieces(primitive, picked):
        inputs = (Layout(DType.I8, (153, 3415)), Layout(DType.I64, picked))
        q = Query(primitive, inputs, primitive.infer(inputs), DeviceInfo(kind="cpu"), 2)
        (made,) = (i for i in candidates(q) if i.name == f"{primitive.kind}.elements")
        (step,) = made.plan(q).steps
        return step.descriptor.row_pieces

    assert pieces(Gather(0), (400,)) == pieces(GatherND(), (400, 1)) == 1
    assert pieces(Gather(1), (3000,)) == 2, "the places of a piece are found one by one"
