"""Placement of what is in stages and in bodies of control flow."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.errors import OptionError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx

pytestmark = pytest.mark.opencl


def _node(op_type: str, inputs: list[str], output: str, annotation: str | None = None, **attributes):
    node = helper.make_node(op_type, inputs, [output], name=f"{output}_node", **attributes)
    if annotation is not None:
        node.metadata_props.add(key="layer_ann", value=annotation)
    return node


def _model(nodes, inputs, outputs, **constants) -> onnx.ModelProto:
    data = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, data)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def _float(name: str, *shape: int | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _branch(name: str, annotation: str | None) -> onnx.GraphProto:
    nodes = [_node("Sin", ["h"], f"sin_{name}", annotation), _node("Softmax", [f"sin_{name}"], name)]
    return helper.make_graph(nodes, name, [], [_float(name, 2, 8)])


def _conditional(*, known: bool) -> onnx.ModelProto:
    """An If with an annotation of its own and one inside, on a constant or on what is computed."""
    nodes = [_node("Relu", ["x"], "h")]
    constants = {"c": np.array(True)} if known else {"limit": np.float32(3)}
    if not known:
        nodes += [_node("ReduceSum", ["h"], "sum", keepdims=0), _node("Greater", ["sum", "limit"], "c")]
    branches = {"then_branch": _branch("then", "inner"), "else_branch": _branch("other", None)}
    nodes += [_node("If", ["c"], "y", "outer", **branches), _node("Sqrt", ["y"], "z")]
    return _model(nodes, [_float("x", 2, 8)], [_float("z", 2, 8)], **constants)


def _places() -> onnx.ModelProto:
    nodes = [
        _node("Relu", ["x"], "h", "front"),
        _node("NonZero", ["h"], "found", "middle"),
        _node("Cast", ["found"], "number", "back", to=1),
        _node("Sqrt", ["number"], "y", "back"),
    ]
    return _model(nodes, [_float("x", 2, 8)], [_float("y", 2, None)])


X = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("pattern", "moved"), [("inner", {"sin"}), ("outer", {"softmax"}), ("Sin", {"sin"}), ("softmax", {"softmax"})]
)
def test_patterns_fit_what_is_in_bodies(pattern, moved, known) -> None:
    want = clgraph.compile(_conditional(known=known), device="host").run({"x": X})["z"]
    rest = "pocl:0"
    model = clgraph.compile(_conditional(known=known), device=rest, placement={pattern: "host", "*": rest})
    # 32 exponentials and quotients of at most one.
    np.testing.assert_allclose(model.run({"x": X})["z"], want, rtol=0, atol=32 * 2.0**-24)
    reports = {f"{n.primitive} {n.fused}": n.placement for n in model.explain().nodes}
    placed = {k: where for text, where in reports.items() for k in ("sin", "softmax") if k in text}
    assert placed == {kind: "host" if kind in moved else rest for kind in ("sin", "softmax")}


def test_a_body_is_annotated_like_its_node_unless_it_says_otherwise() -> None:
    body = next(x.primitive for x in load_onnx(_conditional(known=False)).layers if x.primitive.kind == "if_else")
    annotations = {name: [x.annotation for x in b.layers] for name, b in body.bodies().items()}
    assert annotations == {"then": ["inner", "outer"], "else": ["outer", "outer"]}


def test_a_stage_with_a_device_of_its_own_runs_there_however_small() -> None:
    want = clgraph.compile(_places(), device="host").run({"x": X})["y"]
    model = clgraph.compile(_places(), device="pocl:0", placement={"back": "pocl:0"})
    np.testing.assert_array_equal(model.run({"x": X})["y"], want)
    placed = {name: n.placement for n in model.explain().nodes for name in (n.name, *n.origin)}
    assert {placed["number_node"], placed["y_node"]} == {"pocl:0"}
    assert placed["found_node"] == "host"
    np.testing.assert_array_equal(model.clone().run({"x": X})["y"], want)


def test_a_saved_one_keeps_to_its_placement(tmp_path) -> None:
    rules = {"placement": {"back": "pocl:0"}}
    clgraph.compile(_places(), device="pocl:0", **rules).save(tmp_path / "m.clg")
    again = clgraph.load(tmp_path / "m.clg", device="pocl:0", config=rules)
    again.run({"x": X})
    assert {n.placement for n in again.explain().nodes if n.annotation == "back"} == {"pocl:0"}


def test_what_only_the_host_computes_is_refused_elsewhere_unless_a_fallback_is_given() -> None:
    with pytest.raises(UnsupportedError, match=r"'found_node' .*placed by 'middle' \(placement_fallback .*non_zero"):
        clgraph.compile(_places(), device="pocl:0", placement={"middle": "pocl:0"})
    model = clgraph.compile(_places(), device="pocl:0", placement={"*": "pocl:0"}, placement_fallback=["host"])
    model.run({"x": X})
    assert [n.name for n in model.explain().nodes if n.placement == "host"] == ["found_node"]


def test_a_pattern_that_fits_nothing_in_bodies_either_is_an_error() -> None:
    with pytest.raises(OptionError, match="'innner' fits no annotation"):
        clgraph.compile(_conditional(known=False), placement={"innner": "host"})
