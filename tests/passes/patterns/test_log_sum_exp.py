"""Logarithms of sums, of exponentials too, as their steps: which are spread; what they make of infinities and NaN."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.reduce import Reduce
from clgraph.passes.base import Context
from clgraph.passes.patterns.decompose import Decompose
from clgraph.passes.reference import run_reference
from clgraph.selector.query import DeviceInfo
from tests.support.programs import Net, run

CPU = {"cpu": DeviceInfo("cpu", "cpu")}


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("axes", [(1,), (0,), (0, 1)])
def test_steps_make_what_the_reduction_does(axes, dtype, keepdims, rng) -> None:
    net = Net()
    net.add("y", Reduce("log_sum_exp", axes, keepdims), net.input("x", (6, 9), dtype))
    program = net.program("y")
    x = (rng.standard_normal((6, 9)) * 300).astype(dtype)
    x[1, 3], x[2], x[3, 4], x[4, 2] = -np.inf, -np.inf, np.inf, np.nan
    with np.errstate(all="ignore"):
        (want,) = run_reference(program, {"x": x}).values()
        assert len(list(run(program, Decompose(), context=Context(devices=CPU)))) == 7 + (not keepdims)
        (got,) = run_reference(program, {"x": x}).values()
    # Both are within a few roundings of a logarithm below 1000, which is added to a maximum.
    np.testing.assert_allclose(got, want, rtol=8 * np.finfo(dtype).eps)
    assert got.shape == want.shape


@pytest.mark.parametrize("keepdims", [True, False])
def test_a_logarithm_of_a_sum_is_a_step_behind_it(keepdims, rng) -> None:
    net = Net()
    net.add("y", Reduce("log_sum", (1,), keepdims), net.input("x", (6, 9)))
    program = net.program("y")
    x = rng.uniform(0, 300, (6, 9)).astype(np.float32)
    (want,) = run_reference(program, {"x": x}).values()
    steps = list(run(program, Decompose(), context=Context(devices=CPU)))
    assert [(n.primitive.kind, n.primitive.function) for n in steps] == [("reduce", "sum"), ("activation", "log")]
    (got,) = run_reference(program, {"x": x}).values()
    # A sum of nine and its logarithm, above 1, on both sides.
    np.testing.assert_allclose(got, want, rtol=2 * 10 * np.finfo(np.float32).eps)
    assert got.shape == want.shape


@pytest.mark.parametrize("function", ["log_sum", "log_sum_exp"])
def test_gpus_and_halves_keep_the_reduction(function) -> None:
    for dtype, devices in ((DType.F16, CPU), (DType.F32, {"gpu": DeviceInfo("gpu", "gpu")})):
        net = Net()
        net.add("y", Reduce(function, (1,)), net.input("x", (6, 9), dtype))
        program = run(net.program("y"), Decompose(), context=Context(devices=devices))
        assert [n.name for n in program] == ["y"]
