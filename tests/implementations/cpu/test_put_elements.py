"""Updates of elements of every size, in their order: lines of more than a piece, every kind of axis, outside ones."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.put_elements import JOINED
from clgraph.implementations.cpu.scatter_elements import ScatterElementsElements
from clgraph.implementations.cpu.scatter_nd import ScatterNDElements
from clgraph.ops.scatter import REDUCTIONS
from clgraph.ops.scatter_elements import ScatterElements
from clgraph.ops.scatter_nd import ScatterND
from clgraph.selector.choose import candidates
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op
from tests.support.features import needs
from tests.support.run_tiles import pose, run_tiles

pytestmark = pytest.mark.opencl

CASES = (
    (ScatterElements, (1,), (3, 7), (2, 2100), (2, 2100), (7,)),
    (ScatterElements, (0,), (5, 2, 2100), (3, 2, 2100), (3, 2, 2100), (5,)),
    (ScatterElements, (2,), (3, 2, 3, 4, 3, 4), (2, 2, 4, 3, 2, 3), (2, 2, 4, 3, 2, 3), (3,)),
    (ScatterElements, (4,), (2, 3, 4, 3, 2), (1, 2, 3, 2, 5), (1, 2, 3, 2, 5), (2,)),
    (ScatterND, (), (3, 4, 2100), (5, 2), (5, 2100), (3, 4)),
    (ScatterND, (), (3, 4), (2, 1100, 2), (2, 1100), (3, 4)),
    (ScatterND, (), (3, 4, 5), (2, 1100, 2), (2, 1100, 5), (3, 4)),
    (ScatterND, (), (3, 4, 16), (2, 1100, 2), (2, 1100, 16), (3, 4)),
    (ScatterND, (), (2, 3, 2, 2, 3, 2), (9, 6), (9,), (2, 3, 2, 2, 3, 2)),
)
"""Operator, its axis, shapes of x, indices and updates, sizes that the coordinates are for."""


def _draws(dtype, ends):
    # Floats so small and whole that sums of all updates are exact; integers of their whole range, which wrap.
    kind = dtype.numpy
    low, high = (np.iinfo(kind).min, np.iinfo(kind).max) if kind.kind in "iu" else (0, 2)
    numbers = np.int64 if kind.kind == "f" or kind.kind == "V" else kind
    small = lambda rng, of: rng.integers(low, high, of, numbers, endpoint=True).astype(kind)  # noqa: E731
    ends = np.array(ends if len(ends) > 1 else ends[0])
    return {0: small, 1: lambda rng, of: rng.integers(-ends, ends, of), 2: small}


@pytest.mark.parametrize("dtype", [DType.U8, DType.BF16, DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("index", [DType.I32, DType.I64], ids=str)
def test_updates_of_every_size_come_in_their_order(engine, index, dtype):
    for kind, axis, shape, picked, given, ends in CASES:
        name = f"{kind.kind}.elements"
        types, draw = (dtype, index, dtype), _draws(dtype, ends)
        found = check_op(
            engine, kind(*axis), shape, picked, given, dtype=types, draw=draw, families=("normal",), only=[name]
        )
        assert found == {name: 0.0}, (kind, shape)


@pytest.mark.parametrize("dtype", sorted(JOINED, key=str), ids=str)
def test_updates_join_what_is_there(engine, dtype):
    if dtype == DType.F64:
        needs(engine, "fp64")
    for reduction in REDUCTIONS:
        for kind, axis, shape, picked, given, ends in CASES:
            if reduction == "mul" and picked[-1] > 1000:
                continue
            name = f"{kind.kind}.elements"
            types, draw = (dtype, DType.I64, dtype), _draws(dtype, ends)
            primitive = kind(*axis, reduction)
            found = check_op(
                engine, primitive, shape, picked, given, dtype=types, draw=draw, families=("normal",), only=[name]
            )
            assert found == {name: 0.0}, (kind, shape, reduction)


def test_updates_outside_are_left_out_and_nan_is_the_extremum(engine):
    x, updates = np.float32([1, 2, 3, 4]), np.float32([9, np.nan, 8, 7])
    indices = np.array([4, 1, -5, -1])
    layouts = [Layout.of(a) for a in (x, indices, updates)]
    for reduction, want in (("none", [1, np.nan, 3, 7]), ("max", [1, np.nan, 3, 7]), ("min", [1, np.nan, 3, 4])):
        q = pose(engine.info, ScatterElementsElements, ScatterElements(0, reduction), layouts, arity=3)
        np.testing.assert_array_equal(
            run_tiles(engine, ScatterElementsElements, q, [x, indices, updates]), np.float32(want)
        )


def test_rows_outside_are_left_out(engine):
    x, updates = np.zeros((3, 4), np.float32), np.arange(1, 21, dtype=np.float32).reshape(5, 4)
    indices = np.array([[3], [1], [-4], [1], [-1]])
    layouts = [Layout.of(a) for a in (x, indices, updates)]
    for reduction, middle in (("none", updates[3]), ("add", updates[1] + updates[3])):
        q = pose(engine.info, ScatterNDElements, ScatterND(reduction), layouts, arity=3)
        made = run_tiles(engine, ScatterNDElements, q, [x, indices, updates])
        np.testing.assert_array_equal(made, [x[0], middle, updates[4]])


def test_what_is_not_computed_is_left_to_others():
    device = DeviceInfo(kind="cpu", features=frozenset())
    for dtype, count, reduction, said in (
        (DType.F16, 4, "add", "computes no add of f16"),
        (DType.F64, 4, "max", "needs fp64 for doubles"),
        (DType.U8, 1 << 31, "none", "counts elements in 32 bits"),
    ):
        inputs = (Layout(dtype, (count,)), Layout(DType.I64, (3,)), Layout(dtype, (3,)))
        q = Query(ScatterElements(0, reduction), inputs, (inputs[0],), device, 3)
        (made,) = (i for i in candidates(q) if i.name == "scatter_elements.elements")
        assert made.refusal(q) == said
