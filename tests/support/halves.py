"""Models in float16, as converters write them: every float tensor but the scales of a Resize."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

_FLOAT, _HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
_STAYS = {"Resize": (1, 2)}
"""Inputs that are float32 whatever the model computes in."""


def in_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return *model*, which has no subgraphs, with float16 for float32."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    g = made.graph
    stays = {node.input[i] for node in g.node for i in _STAYS.get(node.op_type, ()) if i < len(node.input)}
    for tensor in g.initializer:
        if tensor.name not in stays:
            _narrow(tensor)
    for value in (*g.input, *g.output, *g.value_info):
        if value.type.tensor_type.elem_type == _FLOAT:
            value.type.tensor_type.elem_type = _HALF
    for node in g.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and stays.isdisjoint(node.output):
                _narrow(attribute.t)
            if (node.op_type, attribute.name, attribute.i) == ("Cast", "to", _FLOAT):
                attribute.i = _HALF
    return made


def _narrow(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == _FLOAT:
        array = numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
