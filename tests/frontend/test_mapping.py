"""ONNX files whose large weights stay in the file."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from clgraph.errors import ModelError
from clgraph.frontend.mapping import outline
from clgraph.frontend.onnx_loader import load_onnx

RNG = np.random.default_rng(4)


def model(*weights: onnx.TensorProto) -> onnx.ModelProto:
    """Return a graph that adds every weight to its input."""
    nodes, last = [], "x"
    for weight in weights:
        nodes.append(helper.make_node("Add", [last, weight.name], [f"after {weight.name}"]))
        last = f"after {weight.name}"
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [64, 64]) for n in ("x", last)]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="test")


@pytest.fixture
def written(tmp_path: Path) -> tuple[onnx.ModelProto, Path]:
    big = RNG.standard_normal((64, 64)).astype(np.float32)
    tensors = [
        numpy_helper.from_array(big, "großes w"),
        numpy_helper.from_array(RNG.standard_normal(64).astype(np.float32), "small"),
        helper.make_tensor("typed", TensorProto.FLOAT, [64, 64], (2 * big).ravel().tolist()),
        numpy_helper.from_array(big.T.astype(np.float64).copy().astype(np.float32), "last"),
    ]
    proto = model(*tensors)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return proto, path


def test_the_constants_of_a_file_are_those_of_its_bytes(written: tuple[onnx.ModelProto, Path]) -> None:
    _, path = written
    from_file, from_bytes = load_onnx(path), load_onnx(path.read_bytes())
    assert list(from_file.constants) == list(from_bytes.constants) == ["großes w", "last", "small", "typed"]
    for name, array in from_bytes.constants.items():
        np.testing.assert_array_equal(from_file.constants[name], array)
        assert not from_file.constants[name].flags.writeable
    assert from_file.layers == from_bytes.layers


@pytest.mark.parametrize("last", ["large", "small", "typed"])
def test_of_several_constants_of_a_name_the_last_counts(
    last: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    big = RNG.standard_normal((64, 64)).astype(np.float32)
    arrays = {"large": 2 * big, "small": big[0], "typed": 3 * big}
    made = {name: numpy_helper.from_array(array, "w") for name, array in arrays.items()}
    made["typed"] = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], arrays["typed"].ravel().tolist())
    proto = model(numpy_helper.from_array(big, "w"))
    proto.graph.initializer.append(made[last])
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    for source in (path, path.read_bytes()):
        np.testing.assert_array_equal(load_onnx(source).constants["w"], arrays[last])
    assert "'w' more than once among its initializers: the last counts" in caplog.text


def test_large_constants_that_nodes_hold_stay_in_the_file_too(tmp_path: Path) -> None:
    big = RNG.standard_normal((64, 64)).astype(np.float32)
    tensor = numpy_helper.from_array(big, "a name of its own")
    nodes = [
        helper.make_node("Constant", [], ["w"], value=tensor),
        helper.make_node("Constant", [], ["small"], value=numpy_helper.from_array(big[0])),
        helper.make_node("Add", ["x", "w"], ["t"]),
        helper.make_node("Add", ["t", "small"], ["y"]),
    ]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [64, 64]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    data, mapped = outline(path)
    assert list(mapped) == ["w"]
    assert len(data) < big.nbytes < path.stat().st_size
    np.testing.assert_array_equal(load_onnx(path).constants["w"], big)
    nodes[0].domain = "elsewhere"
    graph = helper.make_graph(nodes, "g", info[:1], info[1:])
    onnx.save(helper.make_model(graph), path)
    data, mapped = outline(path)
    assert mapped == {}
    assert onnx.ModelProto.FromString(data).graph.node[0].attribute[0].t.raw_data == tensor.raw_data


def test_only_large_raw_data_is_left_out_of_what_is_parsed(written: tuple[onnx.ModelProto, Path]) -> None:
    proto, path = written
    found = outline(path)
    assert found is not None
    data, mapped = found
    assert list(mapped) == ["großes w", "last"]
    rest = onnx.ModelProto.FromString(data)
    for tensor in (rest.graph.initializer[0], rest.graph.initializer[3]):
        assert not tensor.HasField("raw_data")
    for tensor, whole in zip(rest.graph.initializer, proto.graph.initializer, strict=True):
        if tensor.name in mapped:
            tensor.raw_data = mapped[tensor.name].tobytes()
        assert tensor == whole
    assert rest == proto


@pytest.mark.parametrize("cut", [1, 7, 100, 5000, 20_000])
def test_a_cut_file_is_refused_as_before(written: tuple[onnx.ModelProto, Path], cut: int) -> None:
    _, path = written
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ModelError, match="does not parse"):
        load_onnx(path)


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"\x0f\x00", b"not a model"])
def test_what_is_no_message_has_no_outline(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert outline(path) is None
    assert outline(tmp_path / "absent") is None
    assert outline(tmp_path) is None


def test_data_of_another_size_than_the_shape_says_is_refused(tmp_path: Path) -> None:
    tensor = TensorProto(name="w", dims=[64, 64], data_type=TensorProto.FLOAT, raw_data=b"\0" * 8192)
    path = tmp_path / "m.onnx"
    path.write_bytes(model(tensor).SerializeToString())
    with pytest.raises(ModelError, match=r"8192 bytes of data; f32 of shape \[64, 64\] takes 16384"):
        load_onnx(path)
