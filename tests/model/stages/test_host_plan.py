"""Plans of stages on the host: made when shapes come again, for the values that decide sizes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.errors import ShapeError
from clgraph.graph.interpret import interpret
from clgraph.graph.topology import Topology
from clgraph.model.stages.host_plan import PLANNED, HostPlans
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.non_zero import NonZero
from clgraph.ops.reshape import Reshape
from clgraph.ops.shape import ShapeOf


def flattened() -> Topology:
    """``y = reshape(x, shape(x)[::-1]) + reshape(...)``: what shapes decide beside what is computed."""
    t = Topology()
    x = t.input("x", ("n", "m"))
    shape = t.add("shape", ShapeOf(), x)
    rows, columns = (t.add(f"d{i}", Gather(0), shape, t.constant(f"i{i}", np.array([i]))) for i in (0, 1))
    turned = t.add("turned", Concat(0), columns, rows)
    r = t.add("r", Reshape(reads=("shape",)), x, turned)
    t.output("y", t.add("y0", Eltwise("add"), r, r))
    return t


@pytest.mark.parametrize("dtype", [np.float32, np.int64, ml_dtypes.bfloat16])
def test_a_plan_is_made_when_shapes_come_again_and_computes_the_same(dtype: type) -> None:
    topology = flattened()
    plans = HostPlans(topology)
    for shape in ((2, 3), (4, 1), (3, 2)):
        x: np.ndarray = (np.arange(np.prod(shape)).reshape(shape) / 3).astype(dtype)
        assert plans.find({"x": x}) is None
        plan = plans.find({"x": x})
        assert plan is not None
        assert plans.find({"x": x.copy()}) is plan
        assert len(plan._steps) == 2
        found, wanted = plan.run([x])["y"], interpret(topology, {"x": x})["y"]
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_values_that_decide_sizes_are_part_of_what_a_plan_holds_for() -> None:
    t = Topology()
    x, to = t.input("x", ("n", "m")), t.input("to", (2,), dtype=DType.I64)
    t.output("y", t.add("r", Reshape(reads=("shape",)), x, to))
    plans, data = HostPlans(t), np.arange(12.0).reshape(3, 4)
    for shape in ((2, 6), (6, 2), (2, 6), (6, 2), (2, 6), (4, 3)):
        feeds = {"x": data, "to": np.array(shape)}
        if (plan := plans.find(feeds)) is not None:
            np.testing.assert_array_equal(plan.run([data, feeds["to"]])["y"], data.reshape(shape))
    assert sum(plan is not None for plan in plans._plans.values()) == 2


def test_shapes_are_forgotten_and_large_values_are_not_known() -> None:
    plans = HostPlans(flattened())
    for n in range(1, 150):
        for _ in range(2):
            plans.find({"x": np.zeros((n, 2))})
    assert len(plans._plans) == len(plans._met) == 128
    t = Topology()
    x, to = t.input("x", ("n",)), t.input("to", ("k",), dtype=DType.I64)
    t.output("y", t.add("r", Reshape(reads=("shape",)), x, to))
    plans, feeds = HostPlans(t), {"x": np.zeros(1), "to": np.ones(65, np.int64)}
    assert [plans.find(feeds) for _ in range(3)] == [None] * 3


@pytest.mark.opencl
def test_a_stage_says_what_does_not_fit_whether_it_has_a_plan_or_not(device: str) -> None:
    t = Topology()
    x, table = t.input("x", (4,)), t.input("table", ("k",))
    places = t.add("places", NonZero(), x)
    shape = t.add("to", Concat(0), t.constant("two", np.array([2])), t.add("size", ShapeOf(), places))
    last = t.add("last", Gather(0), shape, t.constant("ends", np.array([0, 2])))
    t.output("y", t.add("shaped", Reshape(reads=("shape",)), table, last))
    model = clgraph.compile(t, device)
    feeds = {"x": np.array([0, 1, 0, 2], np.float32), "table": np.arange(4, dtype=np.float32)}
    for _ in range(3):
        np.testing.assert_array_equal(model.run(feeds)["y"], feeds["table"].reshape(2, 2))
        with pytest.raises(ShapeError, match="shaped"):
            model.run(feeds | {"table": feeds["table"][:3]})


@pytest.mark.opencl
def test_a_plan_that_fails_where_the_layers_do_not_is_said(device: str, monkeypatch, caplog) -> None:
    t = Topology()
    places = t.add("places", NonZero(), t.input("x", (4,)))
    t.output("y", t.add("twice", Eltwise("add"), places, places))
    model, x = clgraph.compile(t, device), np.array([0, 1, 0, 2], np.float32)
    monkeypatch.setattr("clgraph.model.stages.host_plan.HostPlan.run", lambda *_: 1 / 0)
    for _ in range(PLANNED):
        np.testing.assert_array_equal(model.run({"x": x})["y"], [[2, 6]])
    assert "its plan failed" in caplog.text


def test_shapes_in_turn_have_plans_when_each_has_come_as_often_as_is_asked() -> None:
    plans = HostPlans(flattened(), comings=5)
    for count in range(1, 8):
        for shape in ((2, 3), (4, 1)):
            assert (plans.find({"x": np.zeros(shape)}) is not None) == (count >= 5)


def test_a_loop_that_appends_finds_the_plans_of_its_steps_again() -> None:
    plans = HostPlans(flattened())
    first, second, third = ([plans.find({"x": np.zeros((2, n))}) for n in range(1, 65)] for _ in range(3))
    assert first == [None] * 64
    assert None not in second
    assert third == second
