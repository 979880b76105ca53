"""Write ``model.onnx``: two convolutions with a pooling between them, a residual sum and a classifier."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(0)


def weights(name: str, *shape: int) -> onnx.TensorProto:
    """Return random weights that keep the size of what they are applied to."""
    drawn = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return numpy_helper.from_array(drawn.astype(np.float32), name)


def node(kind: str, inputs: str, output: str, name: str, **attributes: object) -> onnx.NodeProto:
    """Return a node of the ONNX operator *kind*."""
    return helper.make_node(kind, inputs.split(), [output], name, **attributes)


graph = helper.make_graph(
    [
        node("Conv", "x w1", "c1", "stem", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", "c1", "r1", "relu1"),
        node("AveragePool", "r1", "p", "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p w2", "c2", "block", pads=[1, 1, 1, 1]),
        node("Add", "c2 p", "s", "sum"),
        node("Relu", "s", "r2", "relu2"),
        node("GlobalAveragePool", "r2", "m", "mean"),
        node("Flatten", "m", "f", "flat"),
        node("Gemm", "f w3", "y", "dense", transB=1),
    ],
    "small",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 64, 64])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
    [weights("w1", 32, 3, 3, 3), weights("w2", 32, 32, 3, 3), weights("w3", 10, 32)],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "model.onnx")
