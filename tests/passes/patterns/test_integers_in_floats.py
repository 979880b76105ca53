"""Roots, logarithms and interpolations of integers, computed in floats between conversions on CPUs."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.reduce import Reduce
from clgraph.ops.resize import Resize
from clgraph.passes.base import Context
from clgraph.passes.patterns.decompose import Decompose
from clgraph.passes.reference import run_reference
from clgraph.selector.query import DeviceInfo
from tests.support.programs import Net, run

CPU = {"cpu": DeviceInfo("cpu", "cpu")}
WHOLE = [np.uint8, np.int8, np.int16, np.int32, np.int64]


def ends(dtype, rng, shape):
    """Return the least and the greatest integers, of 64 bits those that doubles hold."""
    low, high = (-(2**52), 2**52) if dtype == np.int64 else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return np.where(rng.random(shape) < 0.5, low, high).astype(dtype)


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("function", ["l2", "log_sum", "log_sum_exp"])
def test_roots_and_logarithms_of_integers_are_computed_in_doubles(function, dtype, rng) -> None:
    net = Net()
    # Of more axes than the kernel converts a run at a time.
    shape = (6, 9) if function == "log_sum_exp" else (2, 3, 1, 3, 3)
    net.add("y", Reduce(function, (0,)), net.input("x", shape, DType.of(np.dtype(dtype))))
    program = net.program("y")
    x = rng.integers(1, 100, shape).astype(dtype)
    (want,) = run_reference(program, {"x": x}).values()
    steps = list(run(program, Decompose(), context=Context(devices=CPU)))
    assert {n.output.layout.dtype for n in steps[:-1]} == {DType.F64}
    (got,) = run_reference(program, {"x": x}).values()
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("function", ["l2", "log_sum"])
def test_roots_and_logarithms_of_sums_of_few_axes_stay(function) -> None:
    def steps(dtype):
        net = Net()
        net.add("y", Reduce(function, (1, 3)), net.input("x", (3, 4, 5, 6), dtype))
        return [n.primitive.kind for n in run(net.program("y"), Decompose(), context=Context(devices=CPU))]

    assert steps(DType.I32) == ["reduce"]
    assert steps(DType.U64)[0] == "reorder"


def test_logarithms_of_exponentials_over_the_last_axes_stay() -> None:
    net = Net()
    net.input("x", (6, 9), DType.I32)
    for name, axes in (("last", (1,)), ("all", (1, 0)), ("first", (0,))):
        net.add(name, Reduce("log_sum_exp", axes), "x")
    program = run(net.program("last", "all", "first"), Decompose(), context=Context(devices=CPU))
    assert [n.name for n in program if isinstance(n.primitive, Reduce) and n.primitive.function == "log_sum_exp"] == [
        "last",
        "all",
    ]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", WHOLE)
def test_interpolations_of_integers_are_mixed_in_floats(dtype, mode, rng) -> None:
    net = Net()
    resize = Resize(mode, shape=(1, 1, 18, 16), scales=(1.0, 1.0, 2.0, 2.0))
    net.add("y", resize, net.input("x", (1, 1, 9, 8), DType.of(np.dtype(dtype))))
    program = net.program("y")
    x = ends(dtype, rng, (1, 1, 9, 8))
    (want,) = run_reference(program, {"x": x}).values()
    steps = list(run(program, Decompose(), context=Context(devices=CPU)))
    wide = DType.F32 if np.dtype(dtype).itemsize < 4 else DType.F64
    assert {n.output.layout.dtype for n in steps[:-1]} == {wide}
    (got,) = run_reference(program, {"x": x}).values()
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, want)


def test_what_picks_or_adds_integers_stays(rng) -> None:
    net = Net()
    net.input("x", (1, 1, 9, 8), DType.I32)
    net.add("nearest", Resize("nearest", shape=(1, 1, 18, 16), scales=(1.0, 1.0, 2.0, 2.0)), "x")
    net.add("sum", Reduce("sum", (1,)), "x")
    program = run(net.program("nearest", "sum"), Decompose(), context=Context(devices=CPU))
    assert [n.name for n in program] == ["nearest", "sum"]
    net = Net()
    net.add("y", Reduce("l2", (1,)), net.input("x", (6, 9), DType.I32))
    program = run(net.program("y"), Decompose(), context=Context(devices={"gpu": DeviceInfo("gpu", "gpu")}))
    assert [n.name for n in program] == ["y"]
