"""Networks as tf2onnx writes them of quantised TFLite files: within a step of ONNX Runtime.

Channels are last, with transposes around what wants them second; a QuantizeLinear and a DequantizeLinear follow every
operator; weights are signed bytes with a scale for each output, transposed behind their DequantizeLinear; biases int32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from tests.support.onnx_case import onnxruntime_outputs

F = np.float32
SECOND, LAST = [0, 3, 1, 2], [0, 2, 3, 1]
STEP = 0.05


class Chain:
    """Writes such a network node by node; values are floats that came out of a DequantizeLinear."""

    def __init__(self, shape: Sequence[int], opset: int = 13) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shape, self.opset = shape, opset
        self.value = self.rounded("x")

    def constant(self, array: np.ndarray) -> str:
        name = f"const_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op_type: str, *inputs: str, **attributes: object) -> str:
        name = f"{op_type}__{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [f"{name}:0"], name=name, **attributes))
        return f"{name}:0"

    def rounded(self, x: str, scale: float = STEP, zero: int = -3) -> str:
        parameters = [self.constant(F(scale)), self.constant(np.int8(zero))]
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *parameters), *parameters)

    def weights(self, shape: Sequence[int], axis: int, spread: float = 0.1) -> str:
        """Return signed bytes with a scale for each index of *axis*, as floats."""
        data = self.rng.integers(-127, 128, shape).astype(np.int8)
        scales = (self.rng.uniform(0.5, 1, shape[axis]) * spread / 64).astype(F)
        return self.add(
            "DequantizeLinear",
            self.constant(data),
            self.constant(scales),
            self.constant(np.zeros(shape[axis], np.int8)),
            axis=axis,
        )

    def bias(self, count: int) -> str:
        data = self.rng.integers(-300, 300, count).astype(np.int32)
        scales, zeros = np.full(count, 0.001, F), np.zeros(count, np.int32)
        return self.add("DequantizeLinear", *map(self.constant, (data, scales, zeros)), axis=0)

    def channels_second(self, op_type: str, x: str, *inputs: str, **attributes: object) -> str:
        y = self.add(op_type, self.add("Transpose", x, perm=SECOND), *inputs, **attributes)
        return self.add("Transpose", y, perm=LAST)

    def convolution(self, x: str, inputs: int, outputs: int, size: int = 3, stride: int = 1, then: str = "Relu") -> str:
        w = self.add("Transpose", self.weights((outputs, size, size, inputs), 0), perm=SECOND)
        y = self.channels_second("Conv", x, w, self.bias(outputs), strides=[stride] * 2, auto_pad="SAME_UPPER")
        return self.rounded(self.add(then, y) if then else y)

    def depthwise(self, x: str, channels: int) -> str:
        w = self.add("Transpose", self.weights((1, 3, 3, channels), 3, 0.3), perm=[3, 0, 1, 2])
        y = self.channels_second("Conv", x, w, self.bias(channels), group=channels, auto_pad="SAME_UPPER")
        bounds = [self.constant(F(0)), self.constant(F(6))]
        return self.rounded(self.add("Clip", y, *bounds))

    def model(self, y: str) -> onnx.ModelProto:
        places = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        results = [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "g", places, results, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def classifier(c: Chain) -> str:
    """A MobileNet: depthwise, residual, hard swish in pieces, squeeze and excite, mean, fully connected, softmax."""
    x = c.convolution(c.value, 3, 16, stride=2)
    y = c.convolution(c.depthwise(x, 16), 16, 16, 1, then="")
    x = c.rounded(c.add("Add", x, y))
    bounds = [c.constant(F(0)), c.constant(F(6))]
    inner = c.rounded(c.add("Clip", c.add("Add", x, c.constant(F(3))), *bounds), 6 / 255, -128)
    x = c.rounded(c.add("Mul", c.rounded(c.add("Mul", x, inner)), c.constant(F(1 / 6))))
    mean = c.rounded(c.add("ReduceMean", x, axes=[1, 2], keepdims=1))
    gate = c.rounded(c.add("Sigmoid", c.convolution(mean, 16, 16, 1, then="")), 1 / 256, -128)
    x = c.rounded(c.add("Mul", x, gate))
    mean = c.rounded(c.add("ReduceMean", x, axes=[1, 2], keepdims=0))
    w = c.add("Transpose", c.weights((10, 16), 0, 0.5), perm=[1, 0])
    y = c.rounded(c.add("Add", c.add("MatMul", mean, w), c.bias(10)))
    return c.rounded(c.add("Softmax", y, axis=-1), 1 / 256, -128)


def decoder(c: Chain) -> str:
    """A segmentation network: pooling, both kinds of Resize, ConvTranspose, Concat, Pad, PRelu, LeakyRelu."""
    x = c.convolution(c.value, 3, 16)
    small = c.rounded(c.channels_second("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))
    pads = c.constant(np.array([0, 1, 1, 0, 0, 1, 1, 0], np.int64))
    small = c.rounded(c.add("Pad", small, pads, c.constant(F(0))))
    w = c.add("Transpose", c.weights((32, 3, 3, 16), 0), perm=SECOND)
    y = c.channels_second("Conv", small, w, c.bias(32))
    small = c.rounded(c.add("PRelu", y, c.weights((1, 1, 32), 2, 0.5)))
    sizes = c.constant(np.array([1, 1, 2, 2], F))
    ways = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    near = c.rounded(c.channels_second("Resize", small, c.constant(np.zeros(0, F)), sizes, **ways))
    ways = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    far = c.rounded(c.channels_second("Resize", small, c.constant(np.zeros(0, F)), sizes, **ways))
    w = c.add("Transpose", c.weights((16, 2, 2, 32), 0), perm=[3, 0, 1, 2])
    up = c.rounded(c.channels_second("ConvTranspose", small, w, c.bias(16), strides=[2, 2]))
    x = c.rounded(c.add("Concat", x, near, far, up, axis=3))
    x = c.rounded(c.add("LeakyRelu", c.convolution(x, 96, 16, then=""), alpha=0.1))
    mean = c.channels_second("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return c.convolution(c.rounded(mean), 16, 8, 1, then="Sigmoid")


@pytest.mark.opencl
@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize(("write", "step"), [(classifier, 1 / 256), (decoder, STEP)])
def test_what_tf2onnx_writes_of_quantised_tflite_files_is_computed_as_by_onnxruntime(write, step, opset) -> None:
    """Of sums in another order, near a half, the rounding may be another; the layers behind may hand that on."""
    chain = Chain((1, 24, 20, 3), opset)
    model = chain.model(write(chain))
    feeds = {"x": chain.rng.standard_normal(chain.shape).astype(F)}
    (theirs,) = onnxruntime_outputs(model, feeds)
    compiled = clgraph.compile(model)
    ours = compiled(feeds)
    assert not [row for row in compiled.explain().nodes if row.placement == "host"]
    off = np.abs(ours - theirs) / F(step)
    assert off.max() < 2.5
    assert (off > 0.5).mean() < 0.02
