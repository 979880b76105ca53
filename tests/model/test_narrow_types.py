"""Models whose inputs, constants and outputs are of types that NumPy itself does not have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.errors import InputError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.ops.concat import Concat
from clgraph.ops.gather import Gather
from clgraph.ops.transpose import Transpose
from tests.support.narrow import NARROW, every_code


def moves(dtype: DType) -> clgraph.Topology:
    """Return a net that joins its input to a constant, turns both and picks rows by indices."""
    net = clgraph.Topology()
    net.input("x", (2, 4), dtype)
    net.constant("w", every_code(dtype)[:4].reshape(1, 4))
    net.constant("rows", np.array([3, 0, 2]))
    net.add("both", Concat(0), "x", "w")
    net.add("turned", Transpose((1, 0)), "both")
    net.add("y", Gather(0), "turned", "rows")
    net.output("y")
    return net


def moved(dtype: DType, x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, every_code(dtype)[:4].reshape(1, 4)]).T[[3, 0, 2]]


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_narrow_type_is_fed_moved_and_returned(dtype: DType, device: str, monkeypatch) -> None:
    monkeypatch.setenv("CLGRAPH_STRICT", "1")
    model = clgraph.compile(moves(dtype), device=device)
    assert [(s.name, s.dtype) for s in (*model.inputs, *model.outputs)] == [("x", dtype), ("y", dtype)]
    x = np.resize(every_code(dtype)[-8:], (2, 4))
    found = model.run({"x": x})["y"]
    assert found.dtype == dtype.numpy
    assert found.tobytes() == moved(dtype, x).tobytes()
    target = np.zeros(found.shape, found.dtype)
    assert model.run({"x": clgraph.Tensor(x, device)}, {"y": target})["y"] is target
    assert target.tobytes() == found.tobytes()


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.BF16, DType.I4], ids=str)
def test_models_of_narrow_types_are_saved_and_dumped(dtype: DType, device: str, tmp_path: Path) -> None:
    config = {"dump_graphs": tmp_path, "dump_data": True, "model_cache": 0}
    model = clgraph.compile(moves(dtype), device=device, config=config)
    x = np.resize(every_code(dtype)[-8:], (2, 4))
    model.save(tmp_path / "model.clg")
    for again in (clgraph.load(tmp_path / "model.clg"), clgraph.load_dump(min(tmp_path.glob("*.json")))):
        assert again.run({"x": x})["y"].tobytes() == moved(dtype, x).tobytes()


@pytest.mark.opencl
def test_another_type_of_the_same_size_is_refused(device: str) -> None:
    model = clgraph.compile(moves(DType.BF16), device=device)
    with pytest.raises(InputError, match="input 'x' is float16; the model requires bfloat16"):
        model.run({"x": np.zeros((2, 4), np.float16)})


@pytest.mark.parametrize("dtype", [DType.U4, DType.I2, DType.F4E2M1], ids=str)
def test_packed_data_beside_the_model_is_unpacked(dtype: DType, tmp_path: Path) -> None:
    codes = np.resize(every_code(dtype), 5)
    code = helper.np_dtype_to_tensor_dtype(dtype.numpy)
    output = helper.make_tensor_value_info("y", code, [5, 1])
    node = helper.make_node("Transpose", ["w"], ["y"], perm=[1, 0])
    graph = helper.make_graph([node], "g", [], [output], [numpy_helper.from_array(codes.reshape(1, 5), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
    assert (tmp_path / "w").stat().st_size == -(-5 * dtype.bits // 8)
    assert load_onnx(tmp_path / "m.onnx").constants["w"].tobytes() == codes.tobytes()
