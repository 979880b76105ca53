"""Sparse tensors as inputs: the results of ONNX Runtime, its calls and exceptions, and what cannot be fed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import clgraph
import clgraph.onnxruntime as ours
from clgraph.errors import InputError, ModelError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx

PLACES = np.array([[0, 1], [1, 1], [2, 0], [2, 3]], np.int64)
VALUES = np.array([1.5, -2, 3, 0.25])
SHAPE = [3, 4]


def product(kind: int = TensorProto.FLOAT, op_type: str = "", shape: Any = SHAPE, **attributes: Any) -> bytes:
    a = helper.make_value_info("a", helper.make_sparse_tensor_type_proto(kind, shape))
    b = helper.make_tensor_value_info("b", kind, [4, 5] if shape is SHAPE else ["m", "n"])
    domain = "" if op_type else "com.microsoft"
    node = helper.make_node(op_type or "SparseToDenseMatMul", ["a", "b"], ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "g", [a, b], [helper.make_tensor_value_info("y", kind, None)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def coordinates(ort: Any, dtype: Any = np.float32, places: Any = PLACES, shape: Any = SHAPE) -> Any:
    device = ort.OrtDevice.make("cpu", 0)
    return ort.SparseTensor.sparse_coo_from_numpy(shape, VALUES.astype(dtype), places, device)


def compressed(ort: Any, dtype: Any = np.float32, starts: Any = (0, 1, 2, 4)) -> Any:
    device = ort.OrtDevice.make("cpu", 0)
    columns, rows = np.ascontiguousarray(PLACES[:, 1]), np.array(starts, np.int64)
    return ort.SparseTensor.sparse_csr_from_numpy(SHAPE, VALUES.astype(dtype), columns, rows, device)


def value(ort: Any, tensor: Any) -> Any:
    return ort.OrtValue.ort_value_from_sparse_tensor(tensor)


@pytest.mark.opencl
def test_products_are_onnxruntimes(rng: np.random.Generator) -> None:
    cases: list[tuple[int, type, dict[str, Any]]] = [
        (TensorProto.FLOAT, np.float32, {"alpha": 0.5}),
        (TensorProto.FLOAT, np.float32, {"transA": 1, "transB": 1}),
        (TensorProto.DOUBLE, np.float64, {}),
        (TensorProto.INT64, np.int64, {"transB": 1}),
    ]
    for kind, dtype, attributes in cases:
        rows = 3 if attributes.get("transA") else 4
        model = product(kind, shape=["i", "j"], **attributes)  # ONNX Runtime infers sizes without the transposes
        b = (rng.standard_normal((5, rows) if attributes.get("transB") else (rows, 5)) * 8).astype(dtype)
        for made in (coordinates, compressed):
            wanted, found = (
                ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(
                    None, {"a": value(ort, made(ort, dtype)), "b": b}
                )[0]
                for ort in (onnxruntime, ours)
            )
            assert found.dtype == wanted.dtype
            # Every row has at most two products that are not 0, each rounded once, as their sum and the factor are.
            np.testing.assert_allclose(found, wanted, rtol=0, atol=64 * np.finfo(np.float32).eps)


CALLS = {
    "the type": lambda ort, s: s.get_inputs()[0].type,
    "what a value holds": lambda ort, s: [
        (v.is_tensor(), v.is_sparse_tensor(), v.data_type(), v.shape(), v.element_type())
        for v in [value(ort, coordinates(ort))]
    ],
    "its tensor": lambda ort, s: value(ort, compressed(ort)).as_sparse_tensor().as_csrc_view().outer().tolist(),
    "coordinates": lambda ort, s: coordinates(ort).as_coo_view().indices().tolist(),
    "what is told": lambda ort, s: [
        (t.format().name, t.dense_shape(), t.data_type(), t.values().tolist(), t.device_name())
        for t in (coordinates(ort), compressed(ort))
    ],
    "rows of coordinates": lambda ort, s: coordinates(ort).as_csrc_view(),
    "blocks": lambda ort, s: coordinates(ort).as_blocksparse_view(),
    "places for another number of values": lambda ort, s: coordinates(ort, places=PLACES[:3]),
    "too few rows": lambda ort, s: compressed(ort, starts=(0, 1, 4)),
    "no sparse tensor": lambda ort, s: ort.SparseTensor(3),
    "its array": lambda ort, s: value(ort, coordinates(ort)).numpy(),
    "a dense feed": lambda ort, s: s.run(None, {"a": np.zeros(SHAPE, np.float32), "b": np.zeros((4, 5), np.float32)}),
    "a sparse feed for a dense input": lambda ort, s: s.run(
        None, {"a": value(ort, coordinates(ort)), "b": value(ort, coordinates(ort))}
    ),
    "another element type": lambda ort, s: s.run(
        None, {"a": value(ort, coordinates(ort, np.float64)), "b": np.zeros((4, 5), np.float32)}
    ),
    "another size": lambda ort, s: s.run(
        None, {"a": value(ort, coordinates(ort, shape=[3, 6])), "b": np.zeros((4, 5), np.float32)}
    ),
}


@pytest.mark.opencl
def test_calls_come_out_as_onnxruntimes() -> None:
    for name, call in CALLS.items():
        came: list[Any] = []
        for ort in (onnxruntime, ours):
            session = ort.InferenceSession(product(), providers=["CPUExecutionProvider"])
            try:
                came.append(call(ort, session))
            except Exception as error:  # every class that ONNX Runtime raises
                bases = {c.__name__ for c in type(error).__mro__}
                came.append(bases & {"InvalidArgument", "RuntimeError", "ValueError"})
        assert came[0] == came[1], name


@pytest.mark.opencl
def test_models_take_what_has_toarray_and_keep_the_type() -> None:
    b = np.arange(20, dtype=np.float32).reshape(4, 5)
    dense = np.zeros(SHAPE, np.float32)
    dense[tuple(PLACES.T)] = VALUES
    with clgraph.compile(product()) as model:
        assert model.inputs[0].type == "sparse_tensor(float)"
        for given in (coordinates(ours), coordinates(ours, places=PLACES @ [4, 1]), compressed(ours), dense):
            bound = 2 * 4 * 2**-24 * (np.abs(dense) @ np.abs(b))  # sums of 4 products, in another order
            assert (np.abs(model.run(given, b)["y"] - dense @ b) <= bound).all()
        twice = coordinates(ours, places=np.array([[0, 1], [0, 1], [2, 0], [2, 3]], np.int64))
        assert model.run(twice, b)["y"][0].tolist() == (-0.5 * b[1]).tolist()
        with pytest.raises(InputError, match="outside its shape"):
            model.run(coordinates(ours, places=PLACES + 1), b)
        with pytest.raises(InputError, match="begin at"):
            model.run(compressed(ours, starts=(0, 3, 2, 4)), b)


def test_a_saved_topology_has_the_type(tmp_path: Any) -> None:
    from clgraph.saved.topologies import _read_signature, _signature

    (a, _) = load_onnx(product()).inputs.values()
    assert _read_signature(_signature(a)) == a
    assert str(a) == "a sparse f32 [3, 4]"


def test_what_has_no_sparse_form_is_refused() -> None:
    with pytest.raises(ModelError, match=r"MatMul.*sparse_tensor\(float\)"):
        load_onnx(product(op_type="MatMul"))
    made = onnx.load_from_string(product())
    made.graph.output.append(made.graph.input[0])
    with pytest.raises(UnsupportedError, match="output 'a' is a sparse"):
        load_onnx(made)
