"""First stages of open sizes: what is small and new is the host's, what is prepared or comes again a program's."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.graph.interpret import interpret
from clgraph.graph.topology import Topology
from clgraph.model.stages import repeats
from clgraph.model.stages.model import StagedModel
from clgraph.ops.activation import Activation
from clgraph.ops.matmul import MatMul
from clgraph.ops.non_zero import NonZero

pytestmark = pytest.mark.opencl

W = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)


def found_behind(rows: int | str) -> Topology:
    """Return a stage of two layers on ``[rows, 4]`` numbers, and the places where they are positive."""
    t = Topology()
    product = t.add("product", MatMul(), t.input("x", (rows, 4)), t.constant("w", W))
    t.output("places", t.add("places", NonZero(), t.add("positive", Activation("relu"), product)))
    return t


def x_of(rows: int) -> np.ndarray:
    """Return numbers whose products with W are no nearer to 0 than rounding may move them."""
    return np.where(np.arange(4 * rows).reshape(rows, 4) % 3 == 0, 1.0, -0.5).astype(np.float32)


def first(model: StagedModel) -> str:
    """Return what ran the first stage."""
    return model.notes[0].split("; ", 1)[1]


def same(model: StagedModel, rows: int) -> None:
    """Compare the places with those of the references."""
    feeds = {"x": x_of(rows)}
    np.testing.assert_array_equal(model.run(feeds)["places"], interpret(found_behind("n"), feeds)["places"])


def test_sizes_that_are_new_build_no_network_and_are_shown(device: str) -> None:
    with clgraph.compile(found_behind("n"), device) as model:
        for rows in range(1, 40):
            same(model, rows)
            assert first(model).startswith("on the host by references")
        assert not model.is_compiled
        assert {node.placement for node in model.explain().nodes} == {"host"}


def test_what_is_prepared_runs_on_the_device(device: str) -> None:
    with clgraph.compile(found_behind("n"), device) as model:
        model.prepare({"x": (5, 4)})
        for rows, where in ((5, "compiled"), (6, "on the host"), (5, "compiled"), (6, "on the host")):
            same(model, rows)
            assert first(model).startswith(where)


@pytest.mark.parametrize("config", [{"deterministic": True}, {"placement": {}}])
def test_options_that_say_where_it_runs_have_it_compiled(device: str, config: dict[str, object]) -> None:
    config = {"placement": {"product": device}} if "placement" in config else config
    with clgraph.compile(found_behind("n"), device, config=config) as model:
        same(model, 5)
        assert first(model).startswith("compiled")


def test_fixed_and_large_sizes_are_compiled(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with clgraph.compile(found_behind(5), device) as model:
        assert model.is_compiled
        same(model, 5)
        assert first(model).startswith("compiled")
    monkeypatch.setattr("clgraph.model.stages.host_piece.FIRST_OPERATIONS", 2 * 16 * 50)
    with clgraph.compile(found_behind("n"), device) as model:
        for rows, where in ((20, "on the host"), (60, "compiled"), (70, "compiled"), (21, "on the host")):
            same(model, rows)
            assert first(model).startswith(where)


def test_2000_sizes_leave_the_host_with_a_bounded_number_of_plans(device: str) -> None:
    with clgraph.compile(found_behind("n"), device) as model:
        x = x_of(2000)
        for rows in range(1, 2001):
            model.run({"x": x[:rows]})
        host = model._runner.pieces[0].host
        assert len(host._open._plans) == 1
        assert len(host._plans._plans) + len(host._plans._met) <= 2 * 128
        assert not model.is_compiled


def appending(rows: int | str, trips: int = 8) -> bytes:
    """Return a Loop of *trips* that appends the sum of its rows to them."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["goes_on"]),
            helper.make_node("ReduceSum", ["acc", "axes"], ["sum"], keepdims=1),
            helper.make_node("Mul", ["sum", "quarter"], ["part"]),
            helper.make_node("Concat", ["acc", "part"], ["next"], axis=0),
        ],
        "body",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in BODY_INPUTS],
        [
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, ["m", 4]),
        ],
    )
    constants = {
        "n": np.array(trips),
        "yes": np.array(True),
        "axes": np.array([0]),
        "quarter": np.array(0.25, np.float32),
    }
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body)],
        "appending",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["k", 4])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(model.SerializeToString())


BODY_INPUTS = (
    ("i", TensorProto.INT64, []),
    ("c", TensorProto.BOOL, []),
    ("acc", TensorProto.FLOAT, ["l", 4]),
)


def appended(x: np.ndarray, trips: int = 8) -> np.ndarray:
    """Return what :func:`appending` does; whole numbers of quarters to the eighth have no rounding for a few rows."""
    for _ in range(trips):
        x = np.concatenate([x, x.sum(0, keepdims=True) / 4])
    return x


def test_a_loop_that_appends_to_open_lengths_is_bound_to_none_until_they_come_again(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "COMPILING_SECONDS", (1e-3, 0.0))
    monkeypatch.setattr(repeats, "BINDING_SECONDS", (1e-3, 0.0))
    with clgraph.compile(appending("n"), device) as model:
        assert isinstance(model, StagedModel)
        for rows in (*range(1, 12), *[1000] * 60):
            x = np.zeros((rows, 4), np.float32)
            x[0] = 4.0**8 * np.arange(4)  # which has whole eighth quarters
            np.testing.assert_array_equal(model.run({"x": x})["y"], appended(x))
            assert rows != 11 or not model.is_compiled
        assert first(model).startswith("compiled")


@pytest.mark.parametrize(("rows", "config"), [(3, {}), ("n", {"deterministic": True}), ("n", {"strict": True})])
def test_such_a_loop_of_a_fixed_length_or_for_the_device_alone_is_a_program(
    device: str, rows: int | str, config: dict[str, bool]
) -> None:
    with clgraph.compile(appending(rows), device, config=config) as model:
        assert type(model) is clgraph.Model
        x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
        np.testing.assert_array_equal(model.run({"x": x})["y"], appended(x))


def test_a_plan_for_any_sizes_that_fails_where_the_layers_do_not_is_said(
    device: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with clgraph.compile(found_behind("n"), device) as model:
        for rows in (2, 3, 4):
            same(model, rows)
        monkeypatch.setattr("clgraph.model.stages.open_plan.OpenPlan.run", lambda *_: 1 / 0)
        same(model, 7)
    assert "its plan failed" in caplog.text
