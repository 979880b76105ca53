"""Kernels of operators that few models have: reversed sequences, caches, unpooling, sums of windows, determinants."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.col2im import Col2Im
from clgraph.ops.determinant import Determinant
from clgraph.ops.max_pool_indices import MaxPoolIndices, MaxUnpool
from clgraph.ops.pooling import Pooling
from clgraph.ops.reverse_sequence import ReverseSequence
from clgraph.ops.tensor_scatter import TensorScatter
from tests.support.check_op import check_op
from tests.support.features import needs
from tests.support.of_a_kind import on_a_cpu

pytestmark = pytest.mark.opencl

MOVED = [DType.U8, DType.BF16, DType.F32, DType.I64]


def _tiles(engine, *names):
    return names if engine.info.kind == "cpu" else ()


def _whole(dtype):
    return lambda rng, of: rng.integers(0, 200, of).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_beginnings_of_sequences_are_reversed(engine, dtype):
    for time, shape, count in ((0, (7, 3, 2, 5), 3), (1, (3, 7), 3), (1, (1, 9, 4), 1), (0, (5, 40), 40)):
        # From no element to all of them.
        draw = {0: _whole(dtype), 1: lambda rng, of, n=shape[time]: np.linspace(0, n, of[0]).astype(np.int64)}
        found = check_op(
            engine, ReverseSequence(1 - time, time), shape, (count,), dtype=(dtype, DType.I64), draw=draw,
            families=("normal",),
        )  # fmt: skip
        assert found == dict.fromkeys(("reverse_sequence.ref", *_tiles(engine, "reverse_sequence.rows")), 0.0)


def test_places_of_more_caches_than_there_are_are_refused():
    layouts = [Layout(DType.F32, (2, 6, 4)), Layout(DType.F32, (2, 3, 4)), Layout(DType.I64, (3,))]
    with pytest.raises(ShapeError, match="not one for each of 2 caches"):
        TensorScatter(1).infer(layouts)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_updates_go_into_a_cache_from_each_place_on(engine, dtype):
    for axis, circular, shape, given in (
        (1, False, (3, 6, 4), (3, 2, 4)),
        (2, True, (2, 3, 5, 2), (2, 3, 4, 2)),
        (2, False, (2, 2, 4), (2, 2, 1)),
    ):
        most = 50 if circular else shape[axis] - given[axis] + 1
        low = -20 if circular else 0
        draw = {
            0: _whole(dtype),
            1: _whole(dtype),
            2: lambda rng, of, low=low, most=most: rng.integers(low, most, of),
        }
        for starts in (((shape[0],),), ()):
            found = check_op(
                engine, TensorScatter(axis, circular), shape, given, *starts, dtype=(dtype, dtype, DType.I64),
                draw=draw, families=("normal",),
            )  # fmt: skip
            assert found == dict.fromkeys(("tensor_scatter.ref", *_tiles(engine, "tensor_scatter.rows")), 0.0)


def _ties(dtype):
    ends = [-np.inf, np.inf, np.nan, -1] if dtype.floating else [np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max]
    return lambda rng, of: rng.choice(np.array([*ends, 0, 0, 2], dtype.numpy), of)


@pytest.mark.parametrize(
    ("dtype", "by_column"),
    [(DType.F32, False), (DType.F32, True), (DType.F64, False), (DType.I8, True), (DType.U8, False)],
)
def test_maxima_are_found_where_they_stand(engine, dtype, by_column):
    on_a_cpu(engine)
    if dtype == DType.F64:
        needs(engine, "fp64")
    for shape, p in (
        ((2, 3, 7, 45), Pooling("max", (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)))),
        ((1, 2, 9, 8), Pooling("max", (3, 2), (2, 3), (1, 2), ((1, 1), (0, 1)), ceil_mode=True)),
        ((2, 1, 21), Pooling("max", (4,), (1,), (2,), ((3, 0),))),
        ((1, 2, 5, 71), Pooling("max", (3, 3), (2, 2), (1, 2), ((1, 1), (2, 1)))),
    ):
        found = check_op(
            engine, MaxPoolIndices(p, by_column), shape, dtype=dtype, draw={0: _ties(dtype)}, families=("normal",)
        )
        assert found == {"max_pool_indices.rows": 0.0}


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_maxima_go_back_to_their_places(engine, dtype):
    for shape, kernel in (((2, 3, 4, 5), (2, 2)), ((1, 2, 7), (3,))):
        count = int(np.prod(MaxUnpool(kernel, kernel).natural(shape)))
        draw = {
            0: _whole(dtype),
            1: lambda rng, of, n=count: rng.permutation(n)[: np.prod(of)].reshape(of),
        }
        found = check_op(
            engine, MaxUnpool(kernel, kernel), shape, shape, dtype=(dtype, DType.I64), draw=draw, families=("normal",)
        )
        assert found == dict.fromkeys(("max_unpool.ref", *_tiles(engine, "max_unpool.elements")), 0.0)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.F64], ids=str)
def test_windows_are_added_up_at_their_places(engine, dtype):
    if dtype == DType.F64:
        needs(engine, "fp64")
    for p, shape in (
        (Col2Im((5, 6), (3, 2), (1, 2), (1, 1), ((1, 1), (0, 0))), (2, 4 * 6, 5 * 3)),
        (Col2Im((5,), (3,), (2,), (2,), ((1, 1),)), (1, 2 * 3, 2)),
        (Col2Im((7, 41), (3, 3), (1, 1), (1, 2), ((0, 2), (3, 1))), (1, 2 * 9, 7 * 41)),
        (Col2Im((6, 90), (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0))), (1, 2 * 4, 3 * 45)),
        (Col2Im((5, 83), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1))), (2, 9, 3 * 42)),
        (Col2Im((5, 91), (3, 3), (1, 2), (1, 1), ((0, 0), (0, 0))), (2, 9, 3 * 45)),
        (Col2Im((5, 90), (3, 2), (1, 2), (1, 1), ((0, 0), (0, 0))), (1, 2 * 6, 3 * 45)),
        (Col2Im((8, 64), (2, 2), (3, 2), (1, 1), ((0, 0), (0, 0))), (2, 4, 3 * 32)),
        (Col2Im((3, 3, 4), (2, 1, 2), (1, 1, 1), (1, 1, 3), ((0, 0),) * 3), (1, 4, 2 * 3 * 1)),
    ):
        # As many sums as a window has elements; halves round once more at the end.
        more = 2.0**13 if dtype == DType.F16 else 0
        size = lambda x, p=p: p.reference(np.abs(x))[0]  # noqa: E731
        found = check_op(engine, p, shape, dtype=dtype, ulps=9 + more, scale=size, families=("normal", "equal"))
        tiles = _tiles(engine, "col2im.rows") if dtype == DType.F32 and len(p.image) < 3 else ()
        assert set(found) == {"col2im.ref", *tiles}


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
def test_determinants_are_those_of_elimination(engine, dtype):
    if dtype == DType.F64:
        needs(engine, "fp64")
    for shape in ((1, 1), (5, 2, 2), (2, 3, 4, 4), (9, 9)):
        m = shape[-1]
        # M^3 roundings of elements, each at most 2^(M - 1) times the greatest, beside a product of the rows' sums.
        size = lambda x: np.abs(x).sum(-1).prod(-1) * 2.0 ** (x.shape[-1] - 1)  # noqa: E731
        found = check_op(engine, Determinant(), shape, dtype=dtype, ulps=m**3, scale=size, families=("normal", "equal"))
        assert list(found) == ["determinant.ref"]


def test_a_determinant_of_what_is_no_number_is_none(engine):
    nan = np.nan
    x = np.array([[[0, nan], [0, 1]], [[-0.0, -0.0], [nan, 2]], [[1, 2], [3, 4]]])
    draw = {0: lambda rng, shape: x}
    check_op(engine, Determinant(), x.shape, draw=draw, ulps=8, scale=lambda x: np.full(len(x), 10.0))
    np.testing.assert_array_equal(np.isnan(Determinant().reference(x)[0]), [True, True, False])
