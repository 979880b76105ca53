"""What the expansion of a model's functions keeps in the bodies of control flow."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import clgraph
from clgraph.errors import SchemaError, UnsupportedError
from clgraph.frontend.checking import check_onnx
from clgraph.frontend.inline import ANNOTATION, annotation_of, inline


def model(main: str, functions: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": 18, "local": 1]>\n{main}\n{functions}')


def annotated(node: onnx.NodeProto, value: str) -> None:
    node.metadata_props.add(key=ANNOTATION, value=value)


def branch(node: onnx.NodeProto, name: str) -> list[tuple[str, str | None]]:
    """Return operators and annotations of a body."""
    (body,) = (a.g for a in node.attribute if a.name == name)
    return [(n.op_type, annotation_of(n)) for n in body.node]


FUNCTIONS = """
<domain: "local", opset_import: ["": 18]>
f (p) => (q) { t = Relu(p) q = Sigmoid(t) }
<domain: "local", opset_import: ["": 18, "local": 1]>
twice (p) => (q) { t = local.f(p) q = Sqrt(t) }
"""


def test_nodes_of_a_call_in_a_body_take_its_annotation_unless_they_have_their_own() -> None:
    source = model(
        """g (float[4] x, bool c) => (float[4] y) {
          y = If (c) <
            then_branch = t () => (float[4] a) { h = Abs(x) a = local.f(h) },
            else_branch = e () => (float[4] b) { h = local.twice(x) b = Neg(h) }
          >
        }""",
        FUNCTIONS,
    )
    for attribute, call in zip(source.graph.node[0].attribute, (1, 0), strict=True):
        annotated(attribute.g.node[call], "late")
    annotated(source.functions[0].node[1], "own")
    expanded, _ = inline(source)
    (node,) = expanded.graph.node
    assert branch(node, "then_branch") == [("Abs", None), ("Relu", "late"), ("Sigmoid", "own")]
    assert branch(node, "else_branch") == [("Relu", "late"), ("Sigmoid", "own"), ("Sqrt", "late"), ("Neg", None)]


def test_bodies_inside_a_function_and_inside_bodies_are_annotated_too() -> None:
    source = model(
        "g (float[4] x, bool c) => (float[4] y) { y = local.outer(x, c) }",
        FUNCTIONS
        + """
        <domain: "local", opset_import: ["": 18, "local": 1]>
        outer (p, c) => (q) {
          q = If (c) <
            then_branch = t () => (float[4] a) {
              a = If (c) <
                then_branch = u () => (float[4] d) { d = local.f(p) }, else_branch = v () => (float[4] e) { e = Abs(p) }
              >
            },
            else_branch = e () => (float[4] b) { b = Neg(p) }
          >
        }""",
    )
    inner = source.functions[2].node[0].attribute[0].g.node[0]
    annotated(inner.attribute[0].g.node[0], "deep")
    expanded, labels = inline(source)
    (node,) = expanded.graph.node
    assert [label.name for label in labels] == ["outer_0/If_0"]
    (within,) = node.attribute[0].g.node
    assert branch(within, "then_branch") == [("Relu", "deep"), ("Sigmoid", "deep")]
    assert branch(within, "else_branch") == [("Abs", None)]


def test_a_body_that_a_call_hands_to_its_function_is_left_as_it_is() -> None:
    source = model(
        """g (float[4] x, bool c) => (float[4] y) {
          y = local.choose <body: graph = t () => (float[4] a) { a = Abs(x) }> (x, c)
        }""",
        """<domain: "local", opset_import: ["": 18]>
        choose <body>(p, c) => (q) {
          q = If (c) <then_branch: graph = @body, else_branch = e () => (float[4] b) { b = Neg(p) }>
        }""",
    )
    expanded, _ = inline(source)
    (node,) = expanded.graph.node
    assert {a.name: [n.op_type for n in a.g.node] for a in node.attribute} == {
        "then_branch": ["Abs"],
        "else_branch": ["Neg"],
    }


def test_calls_have_the_attributes_that_their_functions_have_values_for() -> None:
    source = model(
        """g (float[4] x, bool c) => (float[4] y) {
          a = local.leaky (x)
          b = local.leaky <alpha = 0.5> (a)
          y = If (c) <
            then_branch = t () => (float[4] d) { d = local.outer (b) },
            else_branch = e () => (float[4] f) { f = Neg (b) }
          >
        }""",
        """
        <domain: "local", opset_import: ["": 18]>
        leaky <alpha: float = 0.25> (p) => (q) { q = LeakyRelu <alpha: float = @alpha> (p) }
        <domain: "local", opset_import: ["": 18, "local": 1]>
        outer (p) => (q) { q = local.leaky (p) }
        """,
    )
    before = source.SerializeToString()
    expanded, labels = inline(source)
    assert [label.op_type for label in labels] == ["LeakyRelu", "LeakyRelu", "If"]
    (inside,) = expanded.graph.node[2].attribute[0].g.node
    slopes = [node.attribute[0].f for node in (*expanded.graph.node[:2], inside)]
    assert slopes == [0.25, 0.5, 0.25]
    assert source.SerializeToString() == before


OTHERS = """
<ir_version: 10, opset_import: ["": 18, "local": 1]>
g (float[4] x, bool c) => (float[4] y, float[4] z) {
  s = local.sum(x)
  y = If (c) <
    then_branch = t () => (float[4] a) { a = local.sum(x) },
    else_branch = e () => (float[4] b) { d = ReduceSum(x, axes) b = Add(x, d) }
  >
  axes = Constant <value = int64[1] {0}> ()
  z = Add(s, s)
}
<domain: "local", opset_import: ["": 11]>
sum (p) => (q) { t = ReduceSum <axes = [0]> (p) q = Add(p, t) }
"""


def test_functions_of_another_operator_set_are_read_by_their_own_in_bodies_too() -> None:
    # In opset 11 ReduceSum has its axes as an attribute, in 18 as an input.
    model = clgraph.compile(parser.parse_model(OTHERS), device="host")
    x = np.array([1, 2, 3, 4], np.float32)
    for c in (True, False):
        y, z = model(x, np.array(c))
        assert y.tolist() == [11, 12, 13, 14]
        assert z.tolist() == [22, 24, 26, 28]
    found = check_onnx(parser.parse_model(OTHERS))
    assert not found.problems
    assert {"ReduceSum-11", "ReduceSum-13"} <= found.operators.keys()


@pytest.mark.parametrize("versions", [(11, 18), (18, 11)])
def test_of_an_operator_set_that_is_named_twice_the_last_version_counts(versions: tuple[int, int]) -> None:
    source = parser.parse_model(OTHERS)
    source.opset_import[0].version = versions[0]
    source.opset_import.add(domain="", version=versions[1])
    x = np.array([1, 2, 3, 4], np.float32)
    if versions[1] == 18:
        assert clgraph.compile(source, device="host")(x, np.array(True))[0].tolist() == [11, 12, 13, 14]
    else:  # axes are no input of ReduceSum there
        with pytest.raises(SchemaError, match="ReduceSum"):
            clgraph.compile(source, device="host")


def test_a_function_of_an_operator_set_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="function 'sum' is written for operator set 99"):
        inline(parser.parse_model(OTHERS.replace('"": 11', '"": 99')))


OWN = """<ir_version: 10, opset_import: ["": 18]>
g (float[3] x) => (y, z) { y = Relu(x) z = Twist(x) }
<domain: "%s", opset_import: ["": 18]> Relu (a) => (b) { c = Relu(a) b = Neg(c) }
<domain: "%s", opset_import: ["": 18]> Twist (a) => (b) { c = Relu(a) b = Neg(c) }"""


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_a_function_does_not_hide_an_operator_of_onnx_and_may_add_one(
    domain: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = clgraph.compile(parser.parse_model(OWN % (domain, domain)), device="host")
    y, z = model(np.array([-1, 0, 2], np.float32))
    assert (y.tolist(), z.tolist()) == ([0, 0, 2], [0, 0, -2])
    assert ["'Relu'" in record.getMessage() for record in caplog.records] == [True]
