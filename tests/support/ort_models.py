"""Small models for tests of the two runtimes under one interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

Shape = Sequence[int | str | None] | None


def identity(elem: int = TensorProto.FLOAT, shape: Shape = ("n", 3), op: str = "Identity") -> bytes:
    """Return a model of one operator ``y = op(x)``."""
    values = [helper.make_tensor_value_info(name, elem, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "g", [values[0]], [values[1]])
    return model_of(graph).SerializeToString()


def model_of(graph: onnx.GraphProto, **about: Any) -> onnx.ModelProto:
    """Return a model of *graph* in operator set 17, with further fields."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for name, value in about.items():
        setattr(model, name, value)
    return model


def two_inputs(size: int = 3) -> onnx.ModelProto:
    """Return ``total = a + b``, ``difference = a - b`` over vectors of *size*."""
    a, b, total, difference = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in ("a", "b", "total", "difference")
    )
    nodes = [helper.make_node("Add", ["a", "b"], ["total"]), helper.make_node("Sub", ["a", "b"], ["difference"])]
    return model_of(helper.make_graph(nodes, "two", [a, b], [total, difference]))


def listed_twice() -> onnx.ModelProto:
    """Return ``y = relu(x)`` whose file lists ``y`` twice, ``x`` in between, and names the sizes of neither."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ("n",)) for name in "xy")
    return model_of(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y, x, y]))
