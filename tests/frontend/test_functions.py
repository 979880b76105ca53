"""Operators that are read by the functions of their schemas."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

import clgraph
from clgraph.errors import ModelError, UnsupportedError
from clgraph.frontend import attribute_rules
from clgraph.frontend.checking import check_onnx
from clgraph.frontend.functions import type_of
from clgraph.frontend.inline import ANNOTATION, Label
from clgraph.frontend.onnx_loader import GraphLoader, load_onnx
from clgraph.frontend.schema import Importers
from tests.support.onnx_case import reference_outputs


def model(text: str, opset: int = 20) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}, "local": 1]>\n{text}')


LOSS = """g (float[N, 3] scores, int64[N] labels) => (float[] loss) {
    [train] loss = SoftmaxCrossEntropyLoss <reduction: string = "sum", ignore_index: int = 1> (scores, labels)
}"""


def log_probabilities(scores):
    return scores - np.log(np.exp(scores).sum(1, keepdims=True))


def feeds(rows=4):
    scores = np.linspace(-2, 3, rows * 3, dtype=np.float32).reshape(rows, 3)
    return {"scores": scores, "labels": np.array([0, 1, 2, 1], np.int64)[:rows]}


def test_a_function_of_functions_takes_the_attributes_and_optional_inputs_of_the_call() -> None:
    topology = load_onnx(model(LOSS))
    given = feeds()
    (loss,) = reference_outputs(topology.build({n: a.shape for n, a in given.items()}), given)
    kept = log_probabilities(given["scores"])[[0, 2], [0, 2]]
    np.testing.assert_allclose(loss, -kept.sum(), rtol=1e-6)


def test_its_nodes_are_called_after_the_call_and_take_its_annotation() -> None:
    source = model(LOSS)
    source.graph.node[0].metadata_props.add(key=ANNOTATION, value="late")
    topology = load_onnx(source)
    names = {layer.origin[0] for layer in topology.layers}
    assert "train/LogSoftmax_3" in names
    assert any(name.startswith("train/NegativeLogLikelihoodLoss_7/") for name in names)
    assert {layer.annotation for layer in topology.layers} == {"late"}
    assert list(topology.expanded.items()) == [
        ("train", "SoftmaxCrossEntropyLoss-13"),
        ("train/NegativeLogLikelihoodLoss_7", "NegativeLogLikelihoodLoss-13"),
    ]


def test_a_body_of_control_flow_has_its_functions_expanded_and_reads_the_graph_around() -> None:
    source = model("""g (float[2, 3] scores, int64[2] labels, bool c) => (float[] y) {
        y = If (c) <
          then_branch = t () => (float[] a) { a = SoftmaxCrossEntropyLoss (scores, labels) },
          else_branch = e () => (float[] b) { b = ReduceSum <keepdims: int = 0> (scores) }
        >
    }""")
    given = feeds(2)
    compiled = clgraph.compile(source, "host")
    found = compiled.run({**given, "c": np.array(True)})["y"]
    np.testing.assert_allclose(found, -log_probabilities(given["scores"])[[0, 1], [0, 1]].mean(), rtol=1e-6)
    assert "SoftmaxCrossEntropyLoss-13" in compiled.explain().notes["functions"]


@pytest.mark.opencl
def test_explain_and_check_say_what_was_expanded_and_nothing_where_nothing_was(tmp_path) -> None:
    given = feeds()
    compiled = clgraph.compile(model(LOSS), "host", shapes={n: a.shape for n, a in given.items()})
    assert compiled.explain().notes["functions"].splitlines()[0] == (
        "train (SoftmaxCrossEntropyLoss-13): expanded from its schema's function"
    )
    compiled.save(tmp_path / "loss.clg")
    assert clgraph.load(tmp_path / "loss.clg").explain().notes["functions"] == compiled.explain().notes["functions"]
    plain = clgraph.compile(model("g (float[2] x) => (float[2] y) { y = Relu(x) }"), "host")
    assert "functions" not in plain.explain().notes
    found = check_onnx(model(LOSS))
    assert found.problems == ()
    assert found.expanded == {
        "train": "SoftmaxCrossEntropyLoss-13",
        "train/NegativeLogLikelihoodLoss_7": "NegativeLogLikelihoodLoss-13",
    }


def test_a_function_is_read_by_the_operator_set_that_it_is_written_for() -> None:
    source = model(LOSS, opset=25)
    importers = Importers({"": 25})
    loader = GraphLoader(source.graph, None, importers, {})
    node = source.graph.node[0]
    inner = loader.expand_node(node, Label(node.op_type, "train", None, node), importers)
    assert inner is not None
    assert {these.version("Shape", "") for *_, these in inner} == {13}
    assert importers.version("Shape", "") == 25
    assert importers.under({"": 25}) is importers
    assert importers.under({"local": 1}).version("Shape", "") == 25


def test_what_a_function_is_not_defined_for_is_refused_by_name() -> None:
    source = model(
        "g (float[1, N, 4] x, float[N, 1, 2] w) => (float[1, N, 4] y, float p) { y, p = CausalConvWithState (x, w) }",
        opset=27,
    )
    with pytest.raises(UnsupportedError, match=r"'CausalConvWithState_0'.*not for inputs of the types.*declare their"):
        load_onnx(source)
    (problem,) = check_onnx(source).problems
    assert (problem.node, problem.operator) == ("CausalConvWithState_0", "CausalConvWithState-27")


CONVOLUTION = """g (float[1, 1, 4] x) => (float[1, 1, 4] y, float[1, 1, 1] p) {
    w = Constant <value = float[1, 1, 2] {1.0, 1.0}> ()
    y, p = CausalConvWithState <activation = "relu"> (x, w)
}"""
ATTENTION = """g (float[1, 2, 4] x) => (float[] y, float[] s) {
    y, s = LinearAttention <q_num_heads = 1, kv_num_heads = 1, update_rule = "other"> (x, x, x)
}"""


def test_what_onnx_would_take_for_something_else_is_refused() -> None:
    for text, said in (
        (CONVOLUTION, "'activation' is 'relu'; expected 'none', 'silu' or 'swish'"),
        (ATTENTION, "'update_rule' is 'other'; expected 'linear'"),
    ):
        with pytest.raises(ModelError, match=said):
            load_onnx(model(text, 27))


def test_a_function_that_onnx_leaves_half_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {k: v for k, v in attribute_rules._BY_OPERATOR.items() if k[0] != "CausalConvWithState"}
    monkeypatch.setattr(attribute_rules, "_BY_OPERATOR", rules)
    with pytest.raises(UnsupportedError, match="by a function, but not for inputs"):
        load_onnx(model(CONVOLUTION, 27))


def test_a_call_that_breaks_the_rules_of_its_operator_is_refused_as_such() -> None:
    broken = model(LOSS.replace('"sum"', '"add"'))
    with pytest.raises(ModelError, match=r"'train' \(SoftmaxCrossEntropyLoss\) attribute 'reduction' is 'add'"):
        load_onnx(broken)
    with pytest.raises(ModelError, match=r"'train' \(SoftmaxCrossEntropyLoss\) input 1 .* is a tensor\(float\)"):
        load_onnx(model(LOSS.replace("int64[N]", "float[N]")))


@pytest.mark.parametrize(
    ("spelled", "shape", "wanted"),
    [
        ("tensor(float16)", (2, "N"), helper.make_tensor_type_proto(TensorProto.FLOAT16, (2, "N"))),
        ("tensor(int64)", None, helper.make_tensor_type_proto(TensorProto.INT64, None)),
        (
            "optional(seq(tensor(double)))",
            None,
            helper.make_optional_type_proto(
                helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.DOUBLE, None))
            ),
        ),
        ("seq(...)", None, onnx.TypeProto()),
        (None, None, onnx.TypeProto()),
    ],
)
def test_types_are_read_as_schemas_spell_them(spelled, shape, wanted) -> None:
    assert type_of(spelled, shape) == wanted
