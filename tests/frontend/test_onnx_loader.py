from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from clgraph.core.dtype import DType
from clgraph.errors import ClgraphError, ModelError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.importing import IMPORTERS
from clgraph.graph.signature import Signature
from clgraph.ops.activation import Activation
from clgraph.saved.container import MAGIC
from tests.support.models import small_model

HEADER = '<ir_version: 10, opset_import: ["" : 18]>\n'


def parse(text: str, header: str = HEADER) -> onnx.ModelProto:
    return parser.parse_model(header + text)


def chain() -> onnx.ModelProto:
    return parse('g (float["N",3] x) => (float["N",3] y) { [first] t = Relu(x) [second] y = Sigmoid(t) }')


def test_nodes_become_layers_with_their_names_as_provenance() -> None:
    topology = load_onnx(chain())
    assert [(x.name, str(x.primitive), x.inputs, x.outputs, x.origin) for x in topology.layers] == [
        ("first", "activation(function=relu)", ("x",), ("t",), ("first",)),
        ("second", "activation(function=sigmoid)", ("t",), ("y",), ("second",)),
    ]
    assert topology.inputs == {"x": Signature("x", DType.F32, ("N", 3))}
    assert topology.outputs == [("y", "y")]
    assert topology.declared == {"y": Signature("y", DType.F32, ("N", 3))}


def test_paths_bytes_and_protos_give_the_same_topology(tmp_path: Path) -> None:
    model = chain()
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    loaded = [load_onnx(source).layers for source in (path, str(path), path.read_bytes(), model)]
    assert all(layers == loaded[0] for layers in loaded)


def test_unnamed_nodes_are_called_after_operator_and_position() -> None:
    topology = load_onnx(parse("g (float[2] x) => (float[2] y) { t = Relu(x) y = Relu(t) }"))
    assert [layer.name for layer in topology.layers] == ["Relu_0", "Relu_1"]


def test_nodes_of_one_name_are_told_apart() -> None:
    topology = load_onnx(parse("g (float[2] x) => (float[2] y) { [n] t = Relu(x) [n] y = Relu(t) }"))
    assert [layer.name for layer in topology.layers] == ["n", "n_2"]


def test_weird_names_are_kept() -> None:
    names = ["a b", "häus/θ:0", "'; --", "%d{}", "n" * 300]
    nodes = [helper.make_node("Relu", [a], [b], b) for a, b in pairwise(names)]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in (names[0], names[-1])]
    model = helper.make_model(helper.make_graph(nodes, "", values[:1], values[1:]))
    topology = load_onnx(model)
    assert [layer.outputs[0] for layer in topology.layers] == names[1:]
    assert topology.build().outputs[0][0] == names[-1]


def test_annotations_are_read_from_the_metadata_of_nodes() -> None:
    model = chain()
    model.graph.node[1].metadata_props.add(key="layer_ann", value="block0")
    model.graph.node[1].metadata_props.add(key="other", value="x")
    assert [layer.annotation for layer in load_onnx(model).layers] == [None, "block0"]


def test_metadata_of_the_author_is_kept() -> None:
    model = chain()
    model.metadata_props.add(key="character", value="a\nb")
    assert load_onnx(model).metadata == {"character": "a\nb"}


def test_an_initializer_that_is_also_an_input_is_a_constant() -> None:
    model = parse("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.float32([1, 2]), "w"))
    topology = load_onnx(model)
    assert list(topology.inputs) == ["x"]
    assert topology.constants["w"].tolist() == [1, 2]


def test_raw_data_is_not_copied_out_of_its_bytes() -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.float32([1, 2]), "w"))
    weights = load_onnx(model).constants["w"]
    assert not weights.flags.owndata
    assert not weights.flags.writeable


@pytest.mark.parametrize("dtype", list(DType), ids=str)
def test_every_element_type_is_read_from_raw_data_and_from_typed_fields(dtype: DType) -> None:
    array = np.array([[0, 1, 2], [1, 0, 3]]).astype(np.float32).astype(dtype.numpy)
    for raw in (True, False):
        tensor = numpy_helper.from_array(array, "w")
        if not raw:
            tensor = helper.make_tensor("w", tensor.data_type, array.shape, array.ravel().tolist())
        model = parse("g () => (float[2,3] y) { y = Identity(w) }")
        del model.graph.node[:]
        model.graph.output[0].name = "w"
        model.graph.output[0].type.tensor_type.elem_type = tensor.data_type
        model.graph.initializer.append(tensor)
        found = load_onnx(model).constants["w"]
        assert found.dtype is dtype.numpy
        assert found.tobytes() == array.tobytes()


def test_constant_nodes_are_constants() -> None:
    topology = load_onnx(
        parse(
            """g (float[2] x) => (float[2] y) {
              a = Constant <value = float[2] {1.0, 2.0}> ()
              b = Constant <value_float = 3.0> ()
              s = Add(x, a)
              y = Mul(s, b)
            }"""
        )
    )
    assert topology.constants["a"].tolist() == [1, 2]
    assert topology.constants["b"].shape == ()
    assert topology.constants["b"].dtype == np.float32
    assert [layer.primitive.kind for layer in topology.layers] == ["eltwise", "eltwise"]


def test_nodes_in_any_order_are_sorted() -> None:
    model = chain()
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert [layer.name for layer in load_onnx(model).layers] == ["first", "second"]


def test_functions_are_expanded_with_names_and_annotations() -> None:
    model = parse(
        """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
          [one] y = local.f (x)
          [two] z = local.f (y)
        }
        <domain: "local", opset_import: ["": 18]>
        f (a) => (b) { [inner] t = Relu(a) b = Sigmoid(t) }""",
        '<ir_version: 10, opset_import: ["": 18, "local": 1]>\n',
    )
    model.graph.node[1].metadata_props.add(key="layer_ann", value="late")
    layers = load_onnx(model).layers
    assert [x.origin for x in layers] == [("one/inner",), ("one/Sigmoid_1",), ("two/inner",), ("two/Sigmoid_1",)]
    assert [x.annotation for x in layers] == [None, None, "late", "late"]


def test_outputs_that_are_inputs_or_constants_are_kept() -> None:
    model = parse("g (float[2] x) => (float[2] x, float[2] w) { y = Relu(x) }")
    model.graph.initializer.append(numpy_helper.from_array(np.float32([1, 2]), "w"))
    program = load_onnx(model).build()
    assert [name for name, _ in program.outputs] == ["x", "w"]


def test_dimensions_may_be_named_unknown_or_negative() -> None:
    model = parse('g (float["?",3,"?"] x) => (float[] y) { y = Relu(x) }')
    model.graph.input[0].type.tensor_type.shape.dim[2].Clear()
    model.graph.input[0].type.tensor_type.shape.dim.add(dim_value=-1)
    assert load_onnx(model).inputs["x"].shape == ("?", 3, None, None)


def test_an_input_without_a_shape_takes_any() -> None:
    model = chain()
    model.graph.input[0].type.tensor_type.ClearField("shape")
    topology = load_onnx(model)
    assert topology.inputs["x"].shape is None
    assert topology.build({"x": (2, 3, 4)}).outputs[0][1].layout.shape == (2, 3, 4)


def test_all_unknown_operators_are_listed_at_once_with_the_way_to_add_them() -> None:
    model = parse(
        "g (float[2] x) => (float[2] y) { a = Foo(x) b = Foo(a) c = Relu(b) y = other.Bar(c) }",
        '<ir_version: 10, opset_import: ["": 18, "other": 3]>\n',
    )
    with pytest.raises(UnsupportedError, match=r"Foo \(2\), other\.Bar \(1\); custom operators .*--module"):
        load_onnx(model)


def test_an_unread_schema_version_is_refused_with_those_that_are_read(request: pytest.FixtureRequest) -> None:
    kept = IMPORTERS.snapshot()
    IMPORTERS.restore({key: importer for key, importer in kept.items() if key != ("", "Sigmoid", 13)})
    request.addfinalizer(lambda: IMPORTERS.restore(kept))
    with pytest.raises(UnsupportedError, match=r"Sigmoid-13 \(read are the versions 1, 6\) \(1\)"):
        load_onnx(chain())


def test_a_newer_operator_set_than_onnx_knows_is_refused() -> None:
    model = chain()
    model.opset_import[0].version = 999
    with pytest.raises(UnsupportedError, match=r"operator set 999.*install a newer onnx"):
        load_onnx(model)


def test_every_refusing_importer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(node: object) -> Activation:
        raise node.unsupported("alpha is odd")  # type: ignore[attr-defined]

    monkeypatch.setitem(IMPORTERS._entries, ("", "Relu", 14), refuse)
    with pytest.raises(UnsupportedError, match=r"'a' \(Relu\): alpha is odd; node 'b' \(Relu\): alpha is odd"):
        load_onnx(parse("g (float[2] x) => (float[2] y) { [a] t = Relu(x) [b] y = Relu(t) }"))


def _bad_files(folder: Path) -> dict[str, tuple[Path, str]]:
    data = chain().SerializeToString()
    files = {
        "empty": (b"", "is empty"),
        "cut": (data[: len(data) // 2], "not an ONNX model, or is cut off"),
        "text": (b"hello world, this is not a model", "not an ONNX model"),
        "zeros": (bytes(64), "not an ONNX model"),
        "saved": (MAGIC + bytes(64), r"clgraph\.load reads"),
        "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "`git lfs pull` fetches it"),
        "dump": (b'{"pass": 1}', r"clgraph\.load_dump reads"),
    }
    found = {}
    for name, (content, match) in files.items():
        (folder / name).write_bytes(content)
        found[name] = folder / name, match
    found["missing"] = (folder / "nothing.onnx", "there is no file")
    found["folder"] = (folder, "is a folder")
    return found


@pytest.mark.parametrize("case", ["empty", "cut", "text", "zeros", "saved", "pointer", "dump", "missing", "folder"])
def test_a_bad_file_is_one_model_error_in_one_line(case: str, tmp_path: Path) -> None:
    path, match = _bad_files(tmp_path)[case]
    with pytest.raises(ModelError, match=match) as caught:
        load_onnx(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_cut_anywhere_never_raises_anything_else(tmp_path: Path) -> None:
    model = chain()
    model.graph.initializer.append(numpy_helper.from_array(np.ones((3, 3), np.float32), "w"))
    data = model.SerializeToString()
    for size in range(len(data)):
        with pytest.raises(ClgraphError):
            load_onnx(data[:size])


def test_names_that_are_no_text_are_a_model_error() -> None:
    data = chain().SerializeToString().replace(b"first", b"\xff\xfe\xfd..")
    with pytest.raises(ModelError, match="not UTF-8 text"):
        load_onnx(data)


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_never_raises_anything_but_a_clgraph_error(seed: int) -> None:
    data = small_model().SerializeToString()
    random = np.random.default_rng(seed)
    refused = 0
    for _ in range(250):
        damaged = bytearray(data)
        for at in random.integers(0, len(data), random.integers(1, 4)):
            damaged[at] = random.integers(0, 256)
        try:
            topology = load_onnx(bytes(damaged))
            topology.build(dict.fromkeys(topology.inputs, (1, 3, 10, 10)))
        except ClgraphError:
            refused += 1
    assert refused > 10


BROKEN = {
    "cycle": ("g (float[2] x) => (float[2] y) { y = Add(x, t) t = Relu(y) }", "cycle among the nodes"),
    "dangling": ("g (float[2] x) => (float[2] y) { y = Add(x, t) }", "'t', which nothing makes"),
    "twice": ("g (float[2] x) => (float[2] y) { y = Relu(x) y = Neg(x) }", "'y' more than once"),
    "input made": ("g (float[2] x) => (float[2] x) { x = Relu(x) }", "'x' more than once"),
    "output": ("g (float[2] x) => (float[2] z) { y = Relu(x) }", "no node produces the graph's output 'z'"),
    "no outputs": ("g (float[2] x) => () { y = Relu(x) }", "has no outputs"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_graph_is_one_model_error(case: str) -> None:
    text, match = BROKEN[case]
    with pytest.raises(ModelError, match=match):
        load_onnx(parse(text))


def test_a_node_that_breaks_its_schema_is_one_model_error() -> None:
    for text, match in (
        ("[n] y = Add(x)", r"'n' \(Add\) has 1 inputs, not 2"),
        ("[n] y = Relu(x, x)", r"'n' \(Relu\) has 2 inputs, not 1"),
        ('[n] y = Clip("", x)', r"'n' \(Clip\) lacks input 0"),
        ("[n] y = LeakyRelu <alpha = 1> (x)", r"'n' \(LeakyRelu\) attribute 'alpha' has type 2, not FLOAT"),
    ):
        with pytest.raises(ModelError, match=match):
            load_onnx(parse(f"g (float[2] x) => (float[2] y) {{ {text} }}"))


def test_a_model_without_a_graph_or_an_operator_set_is_an_error() -> None:
    with pytest.raises(ModelError, match="has no graph"):
        load_onnx(onnx.ModelProto(ir_version=8))
    model = chain()
    del model.opset_import[:]
    with pytest.raises(ModelError, match="operator set"):
        load_onnx(model)


def test_inputs_that_hold_strange_types_are_refused() -> None:
    sparse = onnx.ValueInfoProto(name="x")
    sparse.type.sparse_tensor_type.elem_type = TensorProto.COMPLEX64
    for info, match in (
        (helper.make_tensor_sequence_value_info("x", TensorProto.COMPLEX64, None), "COMPLEX64"),
        (sparse, "COMPLEX64"),
        (helper.make_tensor_value_info("x", TensorProto.COMPLEX64, [1]), "COMPLEX64"),
    ):
        model = chain()
        model.graph.input[0].CopyFrom(info)
        with pytest.raises(UnsupportedError, match=match):
            load_onnx(model)


def test_inputs_of_a_type_that_an_operator_does_not_take_are_refused() -> None:
    for info, match in (
        (helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None), r"is a seq\(tensor\(float\)\)"),
        (helper.make_tensor_value_info("x", TensorProto.STRING, [1]), r"is a tensor\(string\)"),
    ):
        model = chain()
        model.graph.input[0].CopyFrom(info)
        with pytest.raises(ModelError, match=match):
            load_onnx(model)


def _with_weights(**fields: object) -> onnx.ModelProto:
    model = parse("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
    model.graph.initializer.append(onnx.TensorProto(name="w", **fields))  # type: ignore[arg-type]
    return model


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"dims": [4], "data_type": 1, "raw_data": b"123"}, "3 bytes of data; f32 of shape \\[4\\] takes 16"),
        ({"dims": [4], "data_type": 1, "float_data": [1.0]}, "does not hold the data"),
        ({"dims": [4], "data_type": 99, "raw_data": b""}, "element type 99"),
        ({"dims": [-4], "data_type": 1, "raw_data": b""}, "shape"),
    ],
)
def test_damaged_weights_are_model_errors_that_name_them(fields: dict[str, object], match: str) -> None:
    with pytest.raises(ModelError, match=match) as caught:
        load_onnx(_with_weights(**fields))
    assert "'w'" in str(caught.value)


def test_maps_of_other_types_than_clients_have_are_refused() -> None:
    model = chain()
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    for key, held in ((TensorProto.INT32, tensor), (TensorProto.STRING, helper.make_sequence_type_proto(tensor))):
        info = helper.make_value_info("x", helper.make_map_type_proto(key, held))
        model.graph.input[0].CopyFrom(info)
        with pytest.raises(UnsupportedError, match=r"input 'x' is a map.*; maps are held from string or int64 to"):
            load_onnx(model)
