from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.support.models import small_model

Command = Callable[..., tuple[int, str, str]]


def _save(path: Path, nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: list[str]) -> Path:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, values)
    opsets = [helper.make_opsetid("", 14), helper.make_opsetid("com.x", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def _images(*names: str) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 6, 6]) for name in names]


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A model with an unknown operator, one of a foreign domain, an attribute and a number of inputs that are wrong."""
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="frob"),
        helper.make_node("Blur", ["a"], ["b"], name="blur", domain="com.x"),
        helper.make_node("RNN", ["x"] * 3, ["c"], name="odd", activations=["Frob"], hidden_size=4),
        helper.make_node("BatchNormalization", ["x", "x"], ["d"], name="norm"),
        helper.make_node("Constant", [], ["k"], name="constant", value_float=2.0),
        helper.make_node("Relu", ["k"], ["e"], name="fine"),
    ]
    return _save(tmp_path / "odd.onnx", nodes, _images("x"), ["b", "c", "d", "e"])


def test_a_model_that_runs_is_said_to(clgraph_command: Command, model: Path) -> None:
    status, out, err = clgraph_command("check", model, "--device", "null")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "operators   Add-14 (1), Conv-11 (2), MaxPool-12 (1), Relu-14 (2)"
    assert "nodes on null, 0 of them on the host" in out.splitlines()[-1]


def test_everything_that_is_missing_is_listed_at_once_with_its_node(clgraph_command: Command, odd: Path) -> None:
    status, out, err = clgraph_command("check", odd, "--device", "host")
    assert (status, err) == (1, "")
    for node in ("frob", "blur", "odd", "norm"):
        assert any(line.startswith(f"{node} ") for line in out.splitlines()), node
    assert not any(line.startswith(("fine ", "constant ")) for line in out.splitlines())
    assert "a plugin that has it" in out
    assert out.splitlines()[-1] == "cannot run  4 problems"


def test_findings_as_json_name_node_operator_problem_and_what_is_needed(clgraph_command: Command, odd: Path) -> None:
    status, out, _ = clgraph_command("check", odd, "--device", "host", "--json")
    assert status == 1
    report = json.loads(out)
    assert report["runs"] is False
    problems = {p["node"]: p for p in report["problems"]}
    assert problems["frob"]["operator"] == "Frobnicate"
    assert problems["blur"]["operator"] == "com.x.Blur"
    assert "'com.x'" in problems["blur"]["what"]
    assert "the activation 'frob' is not one of" in problems["odd"]["what"].lower()
    assert problems["norm"]["what"] == "has 2 inputs, not 5"
    assert all(p["needed"] for p in report["problems"])
    assert report["operators"]["Relu-14"] == 1


def test_a_missing_operator_inside_a_body_is_found(clgraph_command: Command, tmp_path: Path) -> None:
    result = [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)]
    branches = [
        helper.make_graph([helper.make_node(op, ["x"], ["t"], name="inner")], "g", [], result)
        for op in ("Frobnicate", "Neg")
    ]
    node = helper.make_node("If", ["b"], ["y"], name="choice", then_branch=branches[0], else_branch=branches[1])
    inputs = [*_images("x"), helper.make_tensor_value_info("b", TensorProto.BOOL, [])]
    path = _save(tmp_path / "if.onnx", [node], inputs, ["y"])
    status, out, _ = clgraph_command("check", path, "--device", "host", "--json")
    assert status == 1
    (problem,) = json.loads(out)["problems"]
    assert (problem["node"], problem["operator"]) == ("choice/inner", "Frobnicate")


def test_an_input_that_nothing_holds_is_a_problem(clgraph_command: Command, tmp_path: Path) -> None:
    sparse = helper.make_sparse_tensor_value_info("s", TensorProto.COMPLEX64, [4])
    path = _save(tmp_path / "s.onnx", [helper.make_node("Relu", ["x"], ["y"])], [*_images("x"), sparse], ["y"])
    status, out, _ = clgraph_command("check", path, "--device", "host")
    assert status == 1
    assert "input 's' has element type COMPLEX64, which clgraph does not hold" in out


def test_shapes_that_do_not_fit_the_operators_are_a_problem(clgraph_command: Command, tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "y"], ["z"], name="sum")
    inputs = [*_images("x"), helper.make_tensor_value_info("y", TensorProto.FLOAT, [5])]
    status, out, err = clgraph_command("check", _save(tmp_path / "m.onnx", [node], inputs, ["z"]), "--device", "host")
    assert (status, err) == (1, "")
    assert "'sum'" in out


def test_open_shapes_are_said_to_leave_placement_open(clgraph_command: Command, open_model: Path) -> None:
    status, out, _ = clgraph_command("check", open_model, "--device", "null")
    assert status == 0
    assert "give the sizes of dynamic dimensions by --shape: x f32" in out
    status, out, _ = clgraph_command("check", open_model, "--device", "null", "--shape", "x=1,3,8,8")
    assert status == 0
    assert "can run" in out


@pytest.mark.opencl
def test_nodes_on_the_host_are_listed_with_the_reason(clgraph_command: Command, tmp_path: Path, device: str) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"], name="relu"), helper.make_node("NonZero", ["r"], ["y"], name="nz")]
    path = _save(tmp_path / "nz.onnx", nodes, _images("x"), ["y"])
    path_model = onnx.load(path)
    path_model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    onnx.save(path_model, path)
    status, out, _ = clgraph_command("check", path, "--device", device, "--json")
    assert status == 0
    report = json.loads(out)
    assert report["runs"] is True
    assert report["device"] == device
    (host,) = report["host"]
    assert (host["node"], host["origin"]) == ("nz", ["nz"])
    assert host["why"]


def test_check_takes_a_saved_model(clgraph_command: Command, tmp_path: Path) -> None:
    onnx.save(small_model(), tmp_path / "m.onnx")
    clgraph_command("compile", "m.onnx", "--device", "host", "-o", "m.clg")
    status, out, _ = clgraph_command("check", "m.clg", "--device", "host")
    assert status == 0
    assert out.startswith("can run")
