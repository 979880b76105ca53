"""Stages that run the plan of the run before: only for what it holds for, on several threads, and behind errors."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.errors import RunCancelledError, RunTimeoutError
from clgraph.graph.topology import Topology
from clgraph.model.stages.host_plan import PLANNED, HostPlan, HostPlans
from clgraph.model.stages.runner import PieceRunner
from clgraph.network.cancelling import Cancellation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.non_zero import NonZero
from tests.support.graphs import BOOL, FLOAT, INT, agrees, graph, model

node = helper.make_node

pytestmark = pytest.mark.opencl


def found_behind() -> Topology:
    """Return ``y = x[nonzero(x > 0)] + 1`` for x of any length."""
    t = Topology()
    x = t.input("x", ("n",))
    above = t.add("above", Eltwise("greater"), x, t.constant("zero", np.array([0], np.float32)))
    picked = t.add("picked", Gather(0), x, t.add("places", NonZero(), above))
    t.output("y", t.add("more", Eltwise("add"), picked, t.constant("one", np.array([1], np.float32))))
    return t


def wanted(x: np.ndarray) -> np.ndarray:
    """Return what :func:`found_behind` makes."""
    return x[x > 0][None] + np.float32(1)


def arrays() -> list[np.ndarray]:
    """Return arrays of two lengths, of which one or more elements are positive, each length several times in turn."""
    rng = np.random.default_rng(0)
    return [np.abs(rng.normal(size=n)).astype(np.float32) for n in [6] * 12 + [9] * 12 + [6, 9] * 6]


def test_other_shapes_run_their_own_plans(device: str) -> None:
    with clgraph.compile(found_behind(), device=device) as model:
        for x in arrays():
            np.testing.assert_array_equal(model.run({"x": x})["y"], wanted(x))
            x[1] *= -1
            np.testing.assert_array_equal(model.run({"x": x})["y"], wanted(x))


def test_threads_share_a_model(device: str) -> None:
    wrong = []
    with clgraph.compile(found_behind(), device=device) as model:

        def run() -> None:
            wrong.extend([x for x in arrays() if not np.array_equal(model.run({"x": x})["y"], wanted(x))])

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_cancelled_or_failed_run_leaves_the_plan_usable(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(-3, 4, dtype=np.float32)
    with clgraph.compile(found_behind(), device=device) as model:
        for _ in range(2 * PLANNED):
            model.run({"x": x})
        ended = Cancellation()
        ended.cancel()
        with pytest.raises(RunCancelledError):
            model.run({"x": x}, cancellation=ended)
        np.testing.assert_array_equal(model.run({"x": x})["y"], wanted(x))
        with monkeypatch.context() as broken:
            broken.setattr(HostPlan, "run", lambda *_: 1 / 0)
            np.testing.assert_array_equal(model.run({"x": x})["y"], wanted(x))
        np.testing.assert_array_equal(model.run({"x": x})["y"], wanted(x))


def shifting() -> onnx.ModelProto:
    """A loop that adds the mean of the first of three values, which move up in each trip, and ends by data."""
    body = graph(
        [
            node("ReduceMean", ["a"], ["mean"], keepdims=0),
            node("Add", ["sum", "mean"], ["more"]),
            node("Less", ["more", "limit"], ["on"]),
        ],
        [("i", INT, []), ("go", BOOL, []), ("sum", FLOAT, []), *((name, FLOAT, None) for name in "abc")],
        [("on", BOOL, []), ("more", FLOAT, []), *((name, FLOAT, None) for name in "bca"), ("mean", FLOAT, [])],
        limit=np.float32(100),
    )
    loop = node("Loop", ["n", "yes", "zero", "x", "y", "z"], ["sum", "u", "v", "w", "means"], body=body)
    inputs = [("n", INT, []), ("x", FLOAT, ["first"]), ("y", FLOAT, ["width"]), ("z", FLOAT, ["length"])]
    outputs = [("sum", FLOAT, []), *((name, FLOAT, None) for name in "uvw"), ("means", FLOAT, None)]
    constants = {"yes": np.array(True), "zero": np.float32(0)}
    return model(graph([loop], inputs, outputs, **constants))


def test_a_body_whose_shape_changes_at_a_later_trip_runs_another_plan(device: str) -> None:
    source = shifting()
    with clgraph.compile(source, device) as made:
        for run in range(3 * PLANNED):
            z = np.arange(2.0 + run % 2, dtype=np.float32) + np.float32(run)
            feeds = {"x": np.ones(1, np.float32), "y": np.full(1, 2, np.float32), "z": z}
            agrees(made, source, {"n": np.int64(3 + run % 5), **feeds})


def test_trips_alike_run_the_plan_of_their_body_at_once(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ones = np.ones(1, np.float32)
    feeds = {"n": np.array(7), "x": ones, "y": ones, "z": ones}
    with clgraph.compile(shifting(), device) as made:
        for _ in range(PLANNED):
            made.run(feeds)
        calls, run = [], PieceRunner.run
        monkeypatch.setattr(PieceRunner, "run", lambda self, *given: calls.append(self) or run(self, *given))
        assert made.run(feeds, cancellation=Cancellation())["sum"] == 7
    assert len(calls) == 1


def test_trips_that_run_a_plan_at_once_are_ended(device: str) -> None:
    zero = np.zeros(1, np.float32)
    feeds = {"n": np.array(7), "x": zero, "y": zero, "z": zero}
    with clgraph.compile(shifting(), device) as made:
        for _ in range(PLANNED):
            made.run(feeds)
        with pytest.raises(RunTimeoutError):
            made.run({**feeds, "n": np.array(200_000)}, timeout=0.02)
        assert made.run(feeds)["sum"] == 0


def test_trips_on_many_elements_are_handed_to_the_device(device: str) -> None:
    many = np.ones(20_000, np.float32)
    feeds = {"n": np.array(7), "x": many, "y": many, "z": many}
    with clgraph.compile(shifting(), device) as made:
        for _ in range(200):
            assert made.run(feeds)["sum"] == 7
        assert any("3 layers (eltwise 2, reduce); compiled" in note for note in made.notes), made.notes


def test_a_plan_says_what_it_holds_for() -> None:
    plans, x = HostPlans(found_sum()), np.zeros(3, np.float32)
    plans.find({"x": x})
    plan = plans.find({"x": x})
    assert plan is not None
    assert plan.fits([x])
    assert not plan.fits([x[:2]])
    assert not plan.fits([x.astype(np.int64)])
    assert not plan.fits([[0.0, 0.0, 0.0]])


def found_sum() -> Topology:
    """Return ``y = x + x``."""
    t = Topology()
    x = t.input("x", ("n",))
    t.output("y", t.add("twice", Eltwise("add"), x, x))
    return t


def test_operators_on_strings_have_plans_for_numbers_alone(device: str) -> None:
    nodes = [
        helper.make_node("Gather", ["x", "places"], ["picked"], axis=1),
        helper.make_node("Concat", ["picked", "x"], ["joined"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "texts",
        [helper.make_tensor_value_info("x", TensorProto.STRING, ["n", 2])],
        [helper.make_tensor_value_info("joined", TensorProto.STRING, ["n", 3])],
        [numpy_helper.from_array(np.array([1]), "places")],
    )
    raw = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    with clgraph.compile(raw, device) as model:
        for run in range(3 * PLANNED):
            rows = 1 + run % 2
            x = np.array([[f"{run}-{r}-{c}" for c in range(2)] for r in range(rows)], object)
            assert model.run({"x": x})["joined"].tolist() == [[row[1], *row] for row in x.tolist()]
