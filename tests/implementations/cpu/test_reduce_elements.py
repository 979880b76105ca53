"""Reductions of elements of any type by runs: axes that stay and go in every order, rows of more than a run."""

from functools import partial

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.element_types import INT, LONG
from clgraph.implementations.cpu.reduce_elements import EXTREMA, OF_FLOATS, WHOLE, ReduceElements
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reduce import Reduce
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op

pytestmark = pytest.mark.opencl

ONLY = ["reduce.elements"]
PROBLEMS = [
    ((2100,), (0,)),
    ((3, 1030), (0,)),
    ((5, 70), (1,)),
    ((2, 3, 4, 5), (0, 2)),
    ((2, 3, 4, 5), (1, 3)),
    ((2, 90, 33), (1,)),
    ((70, 3), (1,)),
    ((2, 37, 4), (2,)),
    ((45, 7), (1,)),
    ((2, 90, 20), (2,)),
    ((3, 19, 2, 5), (0, 3)),
    ((3, 53, 8), (1,)),
    ((2, 3, 35, 5), (0, 2)),
    ((9, 63), (1,)),
    ((3, 2, 37, 6), (1, 3)),
    ((130, 17, 5), (0, 2)),
    ((65, 35, 40), (0, 2)),
    ((29, 2, 21, 12), (1, 3)),
    ((67, 70, 20), (1, 2)),
    ((70, 3, 40), (0, 2)),
]


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize(("shape", "axes"), PROBLEMS)
def test_integers_are_reduced_as_numpy_does(engine, shape, axes, keepdims):
    for dtype in (DType.I64, DType.I32, DType.I8, DType.U8, DType.BOOL):
        low, high = (-6 if dtype.numpy.kind == "i" else 0), (2 if dtype == DType.BOOL else 7)
        draw = {0: lambda rng, of, d=dtype, a=low, b=high: rng.integers(a, b, of).astype(d.numpy)}
        for function in WHOLE if dtype != DType.BOOL else EXTREMA:
            found = check_op(
                engine, Reduce(function, axes, keepdims), shape, dtype=dtype, draw=draw, families=("normal",), only=ONLY
            )
            assert found == {ONLY[0]: 0.0}, (dtype, function)


def test_means_of_integers_do_not_wrap(engine):
    for dtype, more in ((DType.I64, (-3, 2, 2**32 + 1)), (DType.I32, (-3, 2)), (DType.U32, (3, 2))):
        limits = np.iinfo(dtype.numpy)
        some = np.array([limits.min, limits.max, *more], dtype.numpy)
        draw = {0: lambda rng, of, some=some: rng.choice(some, of)}
        for shape, axes in PROBLEMS:
            check_op(engine, Reduce("mean", axes), shape, dtype=dtype, draw=draw, families=("normal",), only=ONLY)


def _size(function: str, axes: tuple[int, ...], x: np.ndarray) -> np.ndarray:
    """Return the natural size of the rounding errors."""
    if function == "prod":
        return np.prod(np.abs(x), axes, keepdims=True)
    return np.sum(x * x if function == "sum_square" else np.abs(x), axes, keepdims=True)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.F64], ids=str)
@pytest.mark.parametrize(("shape", "axes"), PROBLEMS)
def test_floats_are_reduced_within_the_bound(engine, shape, axes, dtype):
    count = int(np.prod([shape[a] for a in axes]))
    half = 2.0**13 if dtype == DType.F16 else 1.0
    for function in OF_FLOATS:
        # Sums of 64, and their sums; a square, a root and a quotient round once more each, halves at the end.
        roundings = 0 if function in ("max", "min") else count if function == "prod" else 64 + count / 64 + 3
        size = partial(_size, function, axes)
        check_op(
            engine, Reduce(function, axes), shape, dtype=dtype, ulps=roundings + half, scale=size, only=ONLY,
            draw={0: lambda rng, of: rng.uniform(0.5, 1.5, of)}, families=("normal",),
        )  # fmt: skip


def test_nan_is_the_extremum_of_what_holds_it(engine):
    draw = {0: lambda rng, of: np.where(rng.random(of) < 0.002, np.nan, rng.standard_normal(of))}
    for function in ("max", "min"):
        for shape, axes in PROBLEMS:
            check_op(engine, Reduce(function, axes), shape, draw=draw, families=("normal",), only=ONLY)


@pytest.mark.parametrize(("shape", "axes"), PROBLEMS)
def test_results_go_through_the_list(engine, shape, axes):
    kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
    count = int(np.prod([shape[a] for a in axes]))
    fused = [(Eltwise("add"), [kept], 0), (Activation("relu"), [], 0), (Eltwise("mul"), [(1,)], 0)]
    size = lambda x, *_: np.sum(np.abs(x), axes, keepdims=True) + 4  # noqa: E731
    draw = {2: lambda rng, of: rng.uniform(0, 1, of)}
    check_op(
        engine, Reduce("sum", axes), shape, fused=fused, draw=draw, ulps=64 + count / 64 + 3, scale=size,
        families=("normal",), only=ONLY,
    )  # fmt: skip


def test_short_rows_are_reduced_sixteen_at_a_time_and_shorter_ones_side_by_side() -> None:
    def planned(shape, axes, dtype=DType.F32):
        x, p = Layout(dtype, shape), Reduce("sum", axes)
        (step,) = ReduceElements.plan(Query(p, (x,), p.infer([x]), DeviceInfo("cpu", "cpu"), 1)).steps
        return step.descriptor

    assert planned((3, 2, 37, 4), (1, 3)).inner == planned((3, 2, 37, 6), (1, 3), DType.F64).inner == 37
    for shape, axes in (((3, 2, 37, 6), (1, 3)), ((3, 2, 37, 160), (1, 3)), ((3, 37, 6), (2,))):
        assert (planned(shape, axes).inner, planned(shape, axes).short_rows) == (1, 1)
    assert planned((3, 2, 37, 20), (1, 3), DType.F64).short_rows == 1
    assert planned((3000, 56, 40), (0, 2)).ticket_units % 16 == 0, "sixteen rows take as long as one"


def test_extrema_of_ints_are_not_converted() -> None:
    def domain(function):
        x, p = Layout(DType.I32, (40, 50)), Reduce(function, (1,))
        (step,) = ReduceElements.plan(Query(p, (x,), p.infer([x]), DeviceInfo("cpu", "cpu"), 1)).steps
        return step.descriptor.domain

    assert [*map(domain, ("max", "min", "sum"))] == [INT, INT, LONG]
