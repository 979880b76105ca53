"""Where constants come from: sparse tensors, files beside the model, files above 2 GiB; and inputs with values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.errors import ModelError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.ort_models import model_of

ROWS, COLUMNS = 9 << 20, 64
"""Of a table of 2.25 GiB in float32."""


def info(name: str, elem: int, shape: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elem, shape)


def sparse(name: str, values: list[float], places: object, shape: list[int]) -> onnx.SparseTensorProto:
    data = numpy_helper.from_array(np.array(values, np.float32), name)
    return helper.make_sparse_tensor(data, numpy_helper.from_array(np.array(places, np.int64), f"{name}_places"), shape)


def summed(w: onnx.SparseTensorProto) -> onnx.ModelProto:
    """Return ``y = x + w`` with the sparse initialiser *w*."""
    x, y = info("x", TensorProto.FLOAT, [2, 3]), info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], sparse_initializer=[w])
    return model_of(graph)


def test_sparse_initialisers_are_read_as_dense() -> None:
    want = np.array([[0, 5, 0], [0, 0, 7]], np.float32)
    for places in ([1, 5], [[0, 1], [1, 2]]):
        model = clgraph.compile(summed(sparse("w", [5, 7], places, [2, 3])), device="host")
        np.testing.assert_array_equal(model(np.ones((2, 3), np.float32)), want + 1)
    empty = clgraph.compile(summed(sparse("w", [], [], [2, 3])), device="host")
    np.testing.assert_array_equal(empty([[1, 2, 3], [4, 5, 6]]), [[1, 2, 3], [4, 5, 6]])


def test_sparse_constants_of_nodes_are_read_too() -> None:
    node = helper.make_node("Constant", [], ["w"], sparse_value=sparse("", [5], [4], [2, 3]))
    add = helper.make_node("Add", ["x", "w"], ["y"])
    x, y = info("x", TensorProto.FLOAT, [2, 3]), info("y", TensorProto.FLOAT, [2, 3])
    model = clgraph.compile(model_of(helper.make_graph([node, add], "g", [x], [y])), device="host")
    np.testing.assert_array_equal(model(np.zeros((2, 3), np.float32)), [[0, 0, 0], [0, 5, 0]])


@pytest.mark.parametrize(
    ("values", "places", "shape", "words"),
    [
        ([5, 7], [1, 6], [2, 3], "a value outside the shape"),
        ([5, 7], [1, -1], [2, 3], "a value outside the shape"),
        ([5, 7], [[0, 1], [2, 0]], [2, 3], "a value outside the shape"),
        ([5, 7], [1], [2, 3], "places for 2 values"),
        ([5, 7], [[0], [1]], [2, 3], "places for 2 values"),
        ([5], [0], [-2, 3], "places for 1 values"),
    ],
)
def test_a_sparse_tensor_with_wrong_places_is_a_model_error(
    values: list[float], places: object, shape: list[int], words: str
) -> None:
    with pytest.raises(ModelError, match=f"'w' has .*{words}"):
        load_onnx(summed(sparse("w", values, places, shape)))


def gathering(table: onnx.TensorProto | None) -> onnx.GraphProto:
    """Return ``y = w[i]`` over *table*, to which rows may be added later."""
    i, y = info("i", TensorProto.INT64, [3]), info("y", TensorProto.FLOAT, [3, COLUMNS])
    return helper.make_graph([helper.make_node("Gather", ["w", "i"], ["y"])], "g", [i], [y], [table] if table else [])


def table() -> onnx.TensorProto:
    """Return the table without its elements."""
    return TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[ROWS, COLUMNS])


def write_rows(path: Path, start: int) -> None:
    """Write two rows of the table that begins at *start*, and holes for the others, which take no room on the disk."""
    with path.open("r+b") as file:
        for row, value in ((5, 3), (ROWS - 1, 7)):
            file.seek(start + row * COLUMNS * 4)
            file.write(np.full(COLUMNS, value, np.float32).tobytes())
        file.truncate(start + ROWS * COLUMNS * 4)


def write_above_2_gib(path: Path) -> None:
    """Write a file whose weights, above 2 GiB, stand in it: as protobuf has them, field by field."""

    def number(value: int) -> bytes:
        low, more = value & 127, value >> 7
        return bytes([low | 128]) + number(more) if more else bytes([low])

    def field(key: int, content: bytes, behind: int = 0) -> bytes:
        """Return a field of *content*, and *behind* it as many bytes that belong to it."""
        return number(key << 3 | 2) + number(len(content) + behind) + content

    nbytes = ROWS * COLUMNS * 4
    weights = table().SerializeToString() + number(9 << 3 | 2) + number(nbytes)
    graph = gathering(None).SerializeToString() + field(5, weights, nbytes)
    head = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)]).SerializeToString()
    content = head + field(7, graph, nbytes)
    path.write_bytes(content)
    write_rows(path, len(content))


def write_beside(path: Path) -> None:
    """Write a model whose weights are in a file beside it."""
    held = table()
    held.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", str(ROWS * COLUMNS * 4))):
        held.external_data.add(key=key, value=value)
    path.write_bytes(model_of(gathering(held)).SerializeToString())
    (path.parent / "w.bin").touch()
    write_rows(path.parent / "w.bin", 0)


@pytest.mark.parametrize("write", [write_above_2_gib, write_beside])
def test_weights_above_2_gib_are_read_where_they_lie(write: object, tmp_path: Path) -> None:
    write(tmp_path / "model.onnx")  # type: ignore[operator]
    model = clgraph.compile(tmp_path / "model.onnx", device="host")
    found = model(np.array([5, 0, ROWS - 1]))
    np.testing.assert_array_equal(found, np.repeat([[3.0], [0], [7]], COLUMNS, axis=1).astype(np.float32))


@pytest.mark.slow
@pytest.mark.opencl
def test_weights_above_2_gib_are_read_by_a_device(tmp_path: Path) -> None:
    write_above_2_gib(tmp_path / "model.onnx")
    model = clgraph.compile(tmp_path / "model.onnx", device="pocl")
    found = model(np.array([5, 0, ROWS - 1]))
    np.testing.assert_array_equal(found, np.repeat([[3.0], [0], [7]], COLUMNS, axis=1).astype(np.float32))


def test_a_file_beside_the_model_is_asked_for_by_its_path(tmp_path: Path) -> None:
    write_beside(tmp_path / "model.onnx")
    with pytest.raises(ModelError, match="give the model's path, not its bytes"):
        clgraph.compile((tmp_path / "model.onnx").read_bytes(), device="host")
