"""Broken models of every kind: one error of clgraph in one line, never another exception, a crash or a hang."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import clgraph
from clgraph.errors import ClgraphError, DeviceMemoryError, ModelError, ShapeError, UnsupportedError
from clgraph.frontend.inline import MOST_NODES
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.models import image, small_model

HEADER = '<ir_version: 10, opset_import: ["": 18]>\n'


def parse(text: str) -> onnx.ModelProto:
    return parser.parse_model(HEADER + text)


def constant(name: str, *values: int, scalar: bool = False) -> str:
    return (
        f"{name} = Constant <value = int64{'' if scalar else f'[{len(values)}]'} {{{', '.join(map(str, values))}}}> ()"
    )


BYTES = {
    "nothing": b"",
    "zeros": bytes(1000),
    "text": b"hello " * 100,
    "garbage": bytes(range(256)) * 20,
    "endless number": b"\xff" * 40,
    "length beyond the end": b"\x3a\xff\xff\xff\xff\x0f" * 50,
    "nested without end": b"\x3a\x7e" * 10_000,
    "cut": small_model().SerializeToString()[:700],
}


@pytest.mark.parametrize("case", BYTES)
@pytest.mark.parametrize("form", ["bytes", "file"])
def test_bytes_that_are_no_model_are_one_model_error(case: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(BYTES[case])
    with pytest.raises(ModelError) as caught:
        clgraph.compile(BYTES[case] if form == "bytes" else path, device="null")
    assert "\n" not in str(caught.value)


WRONG = {
    "gemm of rank 3": (
        "g (float[2,2,2] a, float[2,2] b) => (float[] y) { y = Gemm(a, b) }",
        ShapeError,
        "Gemm requires two matrices",
    ),
    "bias of gemm": (
        "g (float[1,4] a, float[4,4] b, float[3,0] c) => (float[] y) { y = Gemm(a, b, c) }",
        ShapeError,
        r"bias \[3, 0\] does not broadcast",
    ),
    "pads of a pooling": (
        "g (float[1,1,4,4] x) => (float[] y) { y = MaxPool <kernel_shape = [2, 2], pads = [0, 0, 2, 0]> (x) }",
        ShapeError,
        "pads 0, 2 want to be smaller than their window of 2",
    ),
    "pads of a norm": (
        "g (float[1,1,4,4] x) => (float[] y) { y = LpPool <kernel_shape = [2, 2], pads = [3, 0, 0, 0]> (x) }",
        ShapeError,
        "pads 3, 0",
    ),
    "celu of nothing": (
        "g (float[4] x) => (float[] y) { [odd] y = Celu <alpha = 0.0> (x) }",
        ModelError,
        "'odd'.*'alpha' is 0.0; expected a number but 0",
    ),
    "root of a sequence": (
        "g (float[4] x) => (float[] y) { s = SequenceConstruct(x, x) [odd] y = Sqrt(s) }",
        ModelError,
        r"'odd' .* input 0 \('s'\) is a seq\(tensor\(float\)\), not one of tensor",
    ),
    "root of an element that is a sequence": (
        "g (float[4] x, int64 i) => (float[] y) { s = SequenceConstruct(x) t = SequenceInsert(s, s) y = Sqrt(t) }",
        ModelError,
        r"input 1 \('s'\) is a seq",
    ),
    "place in a tensor": (
        "g (float[4] x, int64 i) => (float[] y) { [odd] y = SequenceAt(x, i) }",
        ModelError,
        r"'odd'.* is a tensor\(float\)",
    ),
    "parts of a split": (
        "g (float[4] x) => (float[] a, float[] b) { a, b = Split <num_outputs = 9223372036854775807> (x) }",
        ShapeError,
        "num_outputs is 9223372036854775807; the node has 2 outputs",
    ),
    "axis of a unique": (
        "g (float[4] x) => (float[] y) { y = Unique <axis = 7> (c) c = Constant <value = float[2] {1.0, 2.0}> () }",
        ShapeError,
        "axis 7 is not one of the 1 axes",
    ),
    "strides of windows": (
        f"g (float[1,4,9] x) => (float[] y) {{ {constant('i', 4, 4)} {constant('b', 2, 2)} "
        "y = Col2Im <strides = [1]> (x, i, b) }",
        ShapeError,
        r"strides \[1\] requires one entry for each axis of the image \[4, 4\]",
    ),
    "split of a scalar": ("g (float x) => (float[] y) { y = Split <num_outputs = 1> (x) }", ShapeError, "scalar"),
    "top of a scalar": (
        f"g (float x) => (float[] v, int64[] i) {{ {constant('k', 1)} v, i = TopK(x, k) }}",
        ShapeError,
        "a scalar has no axis",
    ),
    "several k": (
        f"g (float[4] x) => (float[] v, int64[] i) {{ {constant('k', 1, 2)} v, i = TopK(x, k) }}",
        ShapeError,
        "k is one number",
    ),
    "shift": (
        'g (uint8[3] a, uint8[2] b) => (uint8[] y) { y = BitShift <direction = "LEFT"> (a, b) }',
        ShapeError,
        "do not broadcast",
    ),
    "unpooling": (
        "g (float[1,1,2,2] x, int64[1,1,2,2] i) => (float[] y) { y = MaxUnpool <kernel_shape = [2]> (x, i) }",
        ShapeError,
        "2 spatial axes",
    ),
    "axis of compress": (
        "g (float[2,2] x) => (float[] y) { c = Constant <value = bool[2] {1, 0}> () y = Compress <axis = 9> (a, c) "
        "a = Constant <value = float[2,2] {1.0, 2.0, 3.0, 4.0}> () }",
        ShapeError,
        "axis 9",
    ),
    "elements beyond any device": (
        "g (float[4294967296,4294967296,16] x) => (float[] y) { y = Relu(x) }",
        DeviceMemoryError,
        "more than 2\\^48 elements",
    ),
    "a range as large as the host": (
        f"g (float[2] x) => (int64[] y) {{ {constant('a', 0, scalar=True)} {constant('b', 10**9, scalar=True)} "
        f"{constant('c', 1, scalar=True)} y = Range(a, b, c) }}",
        ShapeError,
        "takes 8000000000 bytes",
    ),
    "a result beyond any device": (
        f"g (float[2] x) => (float[] y) {{ {constant('s', 2**40, 2**40, 2)} y = Expand(x, s) }}",
        DeviceMemoryError,
        "more than 2\\^48 elements",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_shapes_and_values_that_do_not_fit_are_one_error_that_names_them(case: str) -> None:
    text, wanted, match = WRONG[case]
    with pytest.raises(wanted, match=match) as caught:
        clgraph.compile(parse(text), device="null")
    assert "\n" not in str(caught.value)


BRANCHES = """g (float[4] x, bool c) => (float[] y) {
  s = If (c) <then_branch = t () => (THEN a) { a = MAKE(x) }, else_branch = e () => (THEN b) { b = MAKE(x) }>
  [odd] y = READ(s) }"""
"""What comes out of a branch has the type of what its nodes make."""


@pytest.mark.parametrize(
    ("made", "maker", "reader", "match"),
    [
        ("seq(float)", "SequenceConstruct", "Sqrt", r"is a seq\(tensor\(float\)\), not one of tensor\("),
        ("seq(float)", "SequenceConstruct", "NonZero", r"is a seq\(tensor\(float\)\), not one of tensor\("),
        ("float[4]", "Relu", "ConcatFromSequence <axis = 0> ", r"is a tensor\(float\), not one of seq\(tensor\("),
    ],
)
def test_sequences_that_come_for_tensors_are_one_error(made: str, maker: str, reader: str, match: str) -> None:
    text = BRANCHES.replace("THEN", made).replace("MAKE", maker).replace("READ", reader)
    with pytest.raises(ModelError, match=rf"node 'odd' .* input 0 \('s'\) {match}"):
        clgraph.compile(parse(text), "host")


def _external(location: str) -> onnx.ModelProto:
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value=location)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weights])
    return helper.make_model(graph)


@pytest.mark.parametrize(
    ("location", "match"),
    [
        ("w.bin\0x", "is the name of no file"),
        ("", "is the name of no file"),
        (".", "is no file but a folder"),
        ("x" * 5000, "cannot be read"),
        ("loop/w", "cannot be read"),
        ("/etc/passwd", "outside the model's folder"),
        ("a/../../w", "outside the model's folder"),
    ],
)
def test_strange_places_of_external_data_are_one_model_error(location: str, match: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    path = tmp_path / "m.onnx"
    path.write_bytes(_external(location).SerializeToString())
    with pytest.raises(ModelError, match=match) as caught:
        clgraph.compile(path, device="null")
    assert "'w'" in str(caught.value)


@pytest.mark.opencl
def test_sizes_beyond_the_device_are_errors_of_memory_at_once(device: str) -> None:
    for text in (
        "g (float[99999999999] x) => (float[] y) { y = Relu(x) }",
        f"g (float[2] x) => (float[] y) {{ {constant('s', 20_000_000_000, 2)} y = Expand(x, s) }}",
    ):
        with pytest.raises(DeviceMemoryError, match="the device allocates at most"):
            clgraph.compile(parse(text), device)


@pytest.mark.opencl
def test_strides_beyond_32_bits_are_refused_and_name_the_node(device: str) -> None:
    model = parse(
        f"g (float[1,1,4,4] x, float[1,1,3,3] w) => (float[] y) {{ [far] y = Conv <strides = [{2**31}, 1]> (x, w) }}"
    )
    with pytest.raises(UnsupportedError, match="'far': kernels count in 32 bits"):
        clgraph.compile(model, device)


def test_kernel_shapes_that_contradict_the_weights_are_refused() -> None:
    for op_type in ("Conv", "ConvTranspose"):
        node = helper.make_node(op_type, ["x", "w"], ["y"], "n", kernel_shape=[5, 3])
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])
        weights = numpy_helper.from_array(np.ones((1, 1, 3, 3), np.float32), "w")
        graph = helper.make_graph([node], "g", [x], [helper.make_empty_tensor_value_info("y")], [weights])
        with pytest.raises(ShapeError, match=r"'n'.*kernel_shape is \[5, 3\]"):
            load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))


FUNCTIONS = """<ir_version: 10, opset_import: ["": 18, "local": 1]>
g (float[N,4] x) => (float[N,4] y) { [one] y = local.f (x) }
<domain: "local", opset_import: ["": 18]>
f (a) => (b) { b = Relu(a) }"""


def more_inputs(model: onnx.ModelProto) -> None:
    model.graph.node[0].input.append("x")


def more_outputs(model: onnx.ModelProto) -> None:
    model.graph.node[0].output.append("z")


def two_of_a_name(model: onnx.ModelProto) -> None:
    model.functions.append(model.functions[0])


def recursive(model: onnx.ModelProto) -> None:
    model.functions[0].node[0].CopyFrom(helper.make_node("f", ["a"], ["b"], domain="local"))
    model.functions[0].opset_import.append(helper.make_opsetid("local", 1))


def doubling(model: onnx.ModelProto) -> None:
    """f0 calls f1 twice, f1 calls f2 twice, and so on."""
    del model.functions[:]
    levels = MOST_NODES.bit_length() + 20
    for i in range(levels):
        inner, domain = (f"f{i + 1}", "local") if i < levels - 1 else ("Relu", "")
        nodes = [helper.make_node(inner, [a], [b], domain=domain) for a, b in (("a", "m"), ("m", "b"))]
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
        model.functions.append(helper.make_function("local", f"f{i}", ["a"], ["b"], nodes, opsets))
    model.graph.node[0].op_type = "f0"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (more_inputs, "'one' .'f'. has 2 inputs, its function 1"),
        (more_outputs, "has 2 outputs, its function 1"),
        (two_of_a_name, "two functions called 'local.f'"),
        (recursive, "'f' calls itself"),
        (doubling, "expand to more than"),
    ],
)
def test_functions_that_break_their_calls_are_one_model_error(
    change: Callable[[onnx.ModelProto], None], match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clgraph.frontend.inline.MOST_NODES", 1000)
    model = parser.parse_model(FUNCTIONS)
    change(model)
    with pytest.raises(ModelError, match=match):
        load_onnx(model)


def test_names_in_bodies_that_are_no_text_are_a_model_error() -> None:
    model = parse(
        "g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) }, "
        "else_branch = e () => (float[2] b) { b = Neg(x) }> }"
    )
    with pytest.raises(ModelError, match="not UTF-8 text"):
        load_onnx(model.SerializeToString().replace(b"Relu", b"R\xff\xfeu"))


def test_what_a_model_says_of_itself_may_be_no_text(tmp_path: Path) -> None:
    model = small_model()
    said = ("producer", "producer_version", "domain", "graph", "doc", "graph_doc")
    model.producer_name, model.producer_version, model.domain = "first#", "second#", "third#"
    model.graph.name, model.doc_string, model.graph.doc_string = "fourth#", "fifth#", "sixth#"
    with clgraph.compile(model.SerializeToString().replace(b"#", b"\xff"), device="host") as made:
        made.save(tmp_path / "model.clg")
        with clgraph.load(tmp_path / "model.clg", device="host") as loaded:
            texts = ("first", "second", "third", "fourth", "fifth", "sixth")
            assert loaded.about == made.about
            assert [getattr(made.about, name) for name in said] == [f"{text}\ufffd" for text in texts]


@pytest.mark.parametrize("version", [0, -1, 2**40])
@pytest.mark.parametrize("domain", ["", "ai.onnx.ml"])
def test_versions_that_there_cannot_be_are_a_model_error(version: int, domain: str) -> None:
    model = small_model()
    model.opset_import.append(helper.make_opsetid(domain, version))
    with pytest.raises(ModelError, match=f"version {version} of an operator set"):
        load_onnx(model)


def test_constant_of_a_strange_domain_is_an_operator_that_is_not_there() -> None:
    model = parse("g (float[2] x) => (float[2] y) { c = Constant <value = float[2] {1.0, 2.0}> () y = Add(x, c) }")
    model.graph.node[0].domain = "x"
    with pytest.raises(UnsupportedError, match=r"x\.Constant"):
        load_onnx(model)


def test_operators_with_strange_names_are_one_line() -> None:
    model = small_model()
    model.graph.node[0].op_type = "Con\nv"
    with pytest.raises(UnsupportedError, match=r"'Con\\nv' \(1\)"):
        load_onnx(model)


def test_a_program_that_begins_with_a_node_without_inputs_is_compiled() -> None:
    text = f"g (float[2] x) => (float[] y, float[2] z) {{ {constant('s', 5000)} y = ConstantOfShape(s) z = Relu(x) }}"
    assert clgraph.compile(parse(text), device="host").run({"x": np.ones(2, np.float32)})["y"].shape == (5000,)


def test_many_nodes_in_reverse_order_are_sorted() -> None:
    names = [f"v{i}" for i in range(3001)]
    nodes = [helper.make_node("Relu", [a], [b], b) for a, b in pairwise(names)]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in (names[0], names[-1])]
    graph = helper.make_graph(nodes[::-1], "g", values[:1], values[1:])
    layers = load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])).layers
    assert [layer.name for layer in layers] == names[1:]


@pytest.mark.opencl
def test_the_process_is_as_it_was_after_all_of_them(device: str) -> None:
    x = image((1, 3, 10, 10))
    want = clgraph.compile(small_model(), device)(x)
    sources = [*BYTES.values(), *(parse(text) for text, _, _ in WRONG.values())]
    for source in sources:
        with pytest.raises(ClgraphError):
            clgraph.compile(source, device)
    np.testing.assert_array_equal(clgraph.compile(small_model(), device)(x), want)
