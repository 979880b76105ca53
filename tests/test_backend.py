"""ONNX's backend interface: how models are prepared, given inputs and asked about.

ONNX's own suite of tests runs through it in ``tests/models/test_onnx_suite.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph.backend
from clgraph.errors import InputError, UnsupportedError
from tests.support.ort_models import listed_twice


def relu():
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.opencl
def test_inputs_come_in_order_by_name_or_alone():
    x = np.array([-1, 2], np.float32)
    prepared = clgraph.backend.prepare(relu(), device="CPU")
    for inputs in ([x], {"x": x}, x):
        np.testing.assert_array_equal(prepared.run(inputs).y, [0, 2])
    np.testing.assert_array_equal(clgraph.backend.run_model(relu(), [x])[0], [0, 2])
    with pytest.raises(InputError, match="2 inputs"):
        prepared.run([x, x])
    with pytest.raises(InputError, match="speed"):
        prepared.run([x], speed=9)


@pytest.mark.opencl
def test_devices_and_models_that_are_not_there_are_told_apart():
    assert clgraph.backend.supports_device("CPU")
    assert clgraph.backend.supports_device("host")
    assert not clgraph.backend.supports_device("VPU")
    assert clgraph.backend.is_compatible(relu())
    model = relu()
    model.graph.node[0].op_type = "Nothing"
    assert not clgraph.backend.is_compatible(model)
    with pytest.raises(UnsupportedError, match="run_model"):
        clgraph.backend.run_node(relu().graph.node[0], [np.zeros(2, np.float32)])


@pytest.mark.opencl
def test_an_output_that_a_model_lists_twice_has_its_places(tmp_path: Path) -> None:
    x = np.array([-1, 2], np.float32)
    found = clgraph.backend.run_model(listed_twice(), [x])
    assert [r.tolist() for r in found] == [[0, 2], [-1, 2], [0, 2]]
    model = clgraph.compile(listed_twice())
    assert model.output_names == ("y", "x")
    model.save(tmp_path / "saved")
    again = clgraph.load(tmp_path / "saved")
    assert again.about.listed == ("y", "x", "y")
    assert [r.tolist() for r in again(x)] == [[0, 2], [-1, 2]]
