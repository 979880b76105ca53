"""Writing ONNX models node by node, with seeded random weights of a scale that keeps a deep network's values near 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}


class GraphWriter:
    """A graph that is being written; methods add nodes and return the names of their results.

    Nodes are called as exporters call them, by operator and number.
    """

    def __init__(self, name: str, seed: int = 0, opset: int = 17) -> None:
        """Start the graph *name*; *seed* decides its weights."""
        self.name, self.opset, self.random = name, opset, np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self._numbers: dict[str, str] = {}

    def input(self, name: str, shape: Sequence[int | str], dtype: str = "float32") -> str:
        """Add a graph input; a dimension may be a name."""
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[dtype], shape))
        return name

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one result."""
        return self.split(op_type, *inputs, results=1, **attributes)[0]

    def split(self, op_type: str, *inputs: str, results: int, **attributes: Any) -> list[str]:
        """Add a node of several results."""
        name = f"{op_type}_{len(self.nodes)}"
        outputs = [name if results == 1 else f"{name}.{i}" for i in range(results)]
        self.nodes.append(helper.make_node(op_type, list(inputs), outputs, name, **attributes))
        return outputs

    def constant(self, array: NDArray[Any]) -> str:
        """Add an initializer."""
        name = f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def number(self, value: float) -> str:
        """Return the float scalar *value*; equal ones are one initializer."""
        return self._once(np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        """Return the int64 vector of *values*; equal ones are one initializer."""
        return self._once(np.array(values, np.int64))

    def weight(self, *shape: int, fan_in: int, gain: float = 2.0) -> str:
        """Add normal values of variance *gain* / *fan_in* (2: He's for relu, 1: what keeps a linear layer's scale)."""
        return self.constant(self.random.normal(0, math.sqrt(gain / fan_in), shape).astype(np.float32))

    def zeros(self, *shape: int, **_: float) -> str:
        """Add zeros, in place of :meth:`weight` where a model's sizes are all that is asked for: drawing takes long."""
        return self.constant(np.zeros(shape, np.float32))

    def bias(self, size: int) -> str:
        """Add a vector of small values."""
        return self.constant(self.random.normal(0, 0.1, size).astype(np.float32))

    def factor(self, size: int) -> str:
        """Add a vector of values around 1."""
        return self.constant(self.random.uniform(0.8, 1.2, size).astype(np.float32))

    def conv(
        self,
        x: str,
        inputs: int,
        outputs: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        gain: float = 2.0,
        normalized: bool = False,
    ) -> str:
        """Add a convolution that keeps the size at stride 1, its normalization folded or (*normalized*) behind it."""
        shape = (outputs, inputs // groups, kernel, kernel)
        tensors = [x, self.weight(*shape, fan_in=inputs // groups * kernel * kernel, gain=gain)]
        pads, sizes = [kernel // 2] * 4, [kernel, kernel]
        if not normalized:
            tensors.append(self.bias(outputs))
        y = self.add(
            "Conv", *tensors, kernel_shape=sizes, pads=pads, strides=[stride, stride], group=groups, dilations=[1, 1]
        )
        if not normalized:
            return y
        mean, variance = self.bias(outputs), self.factor(outputs)
        return self.add("BatchNormalization", y, self.factor(outputs), self.bias(outputs), mean, variance, epsilon=1e-5)

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        """Add a Gemm with transposed weights, as classifiers have."""
        weights = self.weight(outputs, inputs, fan_in=inputs, gain=1.0)
        return self.add("Gemm", x, weights, self.bias(outputs), transB=1)

    def model(self, *results: str) -> onnx.ModelProto:
        """Return the model; its outputs are *results*, of any shape."""
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, outputs, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def _once(self, array: NDArray[Any]) -> str:
        key = f"{array.dtype}{array.tolist()}"
        if key not in self._numbers:
            self._numbers[key] = self.constant(array)
        return self._numbers[key]
