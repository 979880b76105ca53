"""The best element as an extremum's index and what is there: equal ones, zeros of both signs, NaN; what stays."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.top_k import TopK
from clgraph.passes.base import Context
from clgraph.passes.patterns.decompose import Decompose
from clgraph.passes.reference import run_reference
from clgraph.selector.query import DeviceInfo
from tests.support.programs import Net, run

CPU = {"cpu": DeviceInfo("cpu", "cpu")}


def best(dtype, p, outputs=("y", "place"), devices=CPU):
    """Return the program of *p*, and the kinds of its nodes behind the pass."""
    net = Net()
    net.add("y", p, net.input("x", (6, 9, 4), dtype), outputs=("y", "place"))
    program = net.program(*outputs)
    return program, [n.primitive.kind for n in run(program, Decompose(), context=Context(devices=devices))]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    ("dtype", "largest"), [(DType.F32, True), (DType.F16, True), (DType.I64, True), (DType.I8, False)]
)
def test_an_index_and_what_is_there_are_the_best_element(dtype, largest, axis, rng) -> None:
    x = rng.integers(-3, 3, (6, 9, 4)).astype(dtype.numpy)
    if dtype.floating:
        x[0, :3, :2], x[1] = np.nan, np.where(rng.random((9, 4)) < 0.5, -0.0, 0.0)
    p = TopK(axis, largest, 1)
    program, kinds = best(dtype, p)
    assert kinds == ["arg", "gather_elements"]
    for got, want in zip(run_reference(program, {"x": x}).values(), p.reference(x), strict=True):
        assert got.dtype == want.dtype
        assert got.tobytes() == want.tobytes()


def test_an_element_that_nobody_reads_is_not_picked() -> None:
    assert best(DType.F32, TopK(1, True, 1), ("place",))[1] == ["arg"]


def test_smallest_floats_more_than_one_and_gpus_keep_the_sort() -> None:
    kept = [
        (DType.F32, TopK(1, False, 1), CPU),
        (DType.F32, TopK(1, True, 2), CPU),
        (DType.U64, TopK(1, True, 1), CPU),
        (DType.F32, TopK(1, True, 1), {"gpu": DeviceInfo("gpu", "gpu")}),
    ]
    for dtype, p, devices in kept:
        assert best(dtype, p, devices=devices)[1] == ["top_k"], (dtype, p)
