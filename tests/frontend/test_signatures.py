"""Nodes that break what ONNX says of their operators: one ModelError that names node and attribute or input."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper, parser

from clgraph.errors import ModelError
from clgraph.frontend import attribute_rules
from clgraph.frontend.checking import check_onnx
from clgraph.frontend.functions import has_function
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.importing import IMPORTERS

INF, NAN = float("inf"), float("nan")


def one(op_type: str, *types: int, opset: int = 18, outputs: int = 1, **attributes: object) -> onnx.ModelProto:
    """Return a model of one node that reads an input of each of *types*."""
    names = [f"x{i}" for i in range(len(types))]
    node = helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)], "n", **attributes)
    inputs = [helper.make_tensor_value_info(n, t, None) for n, t in zip(names, types, strict=True)]
    results = [helper.make_empty_tensor_value_info(n) for n in node.output]
    graph = helper.make_graph([node], "g", inputs, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


F32, I64, I32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32

BAD = {
    "unknown attribute": (one("Relu", F32, alpha=0.5), r"has an attribute 'alpha'.*\(there are: none\)"),
    "required attribute": (one("Concat", F32, F32), "lacks attribute 'axis'"),
    "required type": (one("Cast", F32), "lacks attribute 'to'"),
    "required size": (one("LRN", F32), "lacks attribute 'size'"),
    "flag": (one("MaxPool", F32, kernel_shape=[2, 2], ceil_mode=7), "'ceil_mode' is 7; expected 0 or 1"),
    "stride": (one("Conv", F32, F32, strides=[0, 1]), r"'strides' is \[0, 1\]; expected at least 1"),
    "group": (one("Conv", F32, F32, group=-1), "'group' is -1"),
    "nan": (one("LeakyRelu", F32, alpha=NAN), "'alpha' is nan; expected a finite number"),
    "infinite": (one("Gemm", F32, F32, alpha=INF), "'alpha' is inf"),
    "negative": (one("LayerNormalization", F32, F32, epsilon=-1.0), "'epsilon' is -1.0; expected at least 0"),
    "word": (one("Gelu", F32, opset=20, approximate="no"), "'approximate' is 'no'; expected 'none' or 'tanh'"),
    "word of an operator": (one("DepthToSpace", F32, blocksize=2, mode="XYZ"), "'mode' is 'XYZ'"),
    "outputs": (one("Relu", F32, outputs=2), "has 2 outputs, not 1"),
    "two types": (one("Add", F32, I32), r"inputs 0 and 1 want to be of one type, and are tensor\(float\) and"),
    "type": (one("Conv", I64, I64), r"input 0 \('x0'\) is a tensor\(int64\), not one of"),
    "only type": (one("Reshape", F32, F32), r"input 1 \('x1'\) is a tensor\(float\), not a tensor\(int64\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_node_that_its_schema_does_not_allow_is_one_error_that_names_it(case: str) -> None:
    model, match = BAD[case]
    with pytest.raises(ModelError, match=match) as caught:
        load_onnx(model)
    assert str(caught.value).startswith("node 'n' (")
    assert "\n" not in str(caught.value)
    (problem,) = check_onnx(model).problems
    assert problem.node == "n"


def test_an_attribute_that_is_there_twice_or_stands_for_another_is_refused() -> None:
    model = one("LeakyRelu", F32, alpha=0.5)
    model.graph.node[0].attribute.append(helper.make_attribute("alpha", 0.25))
    with pytest.raises(ModelError, match="attribute 'alpha' more than once"):
        load_onnx(model)
    model = one("LeakyRelu", F32, alpha=0.5)
    model.graph.node[0].attribute[0].ref_attr_name = "slope"
    with pytest.raises(ModelError, match="stands for 'slope' of a function"):
        load_onnx(model)


def test_what_is_infinite_on_purpose_and_private_attributes_are_read() -> None:
    load_onnx(one("Clip", F32, opset=6, min=-INF, max=INF))
    load_onnx(one("Relu", F32, __note="mine"))


def test_types_are_followed_through_nodes() -> None:
    text = """<ir_version: 10, opset_import: ["": 18]>
    g (float[2] x, float[2] z) => (float[2] y) { a = Shape(x) [low] b = Less(x, z) [n] y = Add(a, b) }"""
    with pytest.raises(ModelError, match=r"'n' \(Add\) input 1 \('b'\) is a tensor\(bool\)"):
        load_onnx(parser.parse_model(text))


def test_types_are_followed_into_bodies() -> None:
    text = """<ir_version: 10, opset_import: ["": 18]>
    g (float[2] x, int64[2] k, bool c) => (float[2] y) {
      y = If (c) <then_branch = t () => (float[2] a) { [n] a = Add(x, k) },
                  else_branch = e () => (float[2] b) { b = Relu(x) }>
    }"""
    with pytest.raises(ModelError, match=r"'n' \(Add\) inputs 0 and 1 want to be of one type"):
        load_onnx(parser.parse_model(text))


def test_every_rule_is_about_an_attribute_that_an_operator_has() -> None:
    read = {op_type for domain, op_type, _ in IMPORTERS if domain in ("", "ai.onnx.ml")}
    known = (s for s in defs.get_all_schemas_with_history() if s.domain in ("", "ai.onnx.ml"))
    schemas = [s for s in known if s.name in read or has_function(s)]
    named = {name for s in schemas for name in s.attributes}
    assert set(attribute_rules._BY_NAME) <= named
    assert set(attribute_rules._BY_OPERATOR) <= {(s.name, name) for s in schemas for name in s.attributes}


def test_defaults_of_onnx_keep_the_rules() -> None:
    misspelt = {("GRU", "foward"), ("LSTM", "foward"), ("RNN", "foward")}
    checked, read = 0, {op_type for domain, op_type, _ in IMPORTERS if not domain}
    for schema in defs.get_all_schemas_with_history():
        for attribute in schema.attributes.values():
            default = attribute.default_value
            if not schema.domain and schema.name in read and default.type:
                default.name = attribute.name
                if (schema.name, default.s.decode()) in misspelt:
                    continue
                assert attribute_rules.value_problem(schema.name, default) is None, (schema.name, attribute.name)
                checked += 1
    assert checked > 500


def test_constants_bind_types_too() -> None:
    model = one("Add", F32)
    model.graph.node[0].input.append("w")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.int32([1]), "w"))
    with pytest.raises(ModelError, match="want to be of one type"):
        load_onnx(model)
