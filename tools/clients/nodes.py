# needs: attrs bitstring toposort --no-deps: qonnx
"""Execute a network as QONNX does: tidied, each node by a session of its own, quantisers by themselves."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.fold_constants import FoldConstants
from qonnx.transformation.general import GiveReadableTensorNames, GiveUniqueNodeNames
from qonnx.transformation.infer_shapes import InferShapes

random = np.random.default_rng(0)
weights = {"a": (8, 3, 3, 3), "b": (32, 10)}
held = {name: random.standard_normal(sizes).astype(np.float32) / 4 for name, sizes in weights.items()}
held |= {"scale": np.float32(1 / 16), "zero": np.float32(0), "bits": np.float32(4), "two": np.float32([2])}
held["three"] = np.float32([3])
options = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"}
nodes = [
    helper.make_node("Add", ["two", "three"], ["five"]),
    helper.make_node("Quant", ["a", "scale", "zero", "bits"], ["qa"], domain="qonnx.custom_op.general", **options),
    helper.make_node("Conv", ["x", "qa"], ["1"], strides=[2, 2], pads=[1] * 4),
    helper.make_node("Relu", ["1"], ["2"]),
    helper.make_node("Quant", ["2", "scale", "zero", "bits"], ["3"], domain="qonnx.custom_op.general", **options),
    helper.make_node("MaxPool", ["3"], ["4"], kernel_shape=[2, 2], strides=[2, 2]),
    helper.make_node("Flatten", ["4"], ["5"]),
    helper.make_node("MatMul", ["5", "b"], ["6"]),
    helper.make_node("Mul", ["6", "five"], ["y"]),
]
graph = helper.make_graph(
    nodes,
    "g",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
    [numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()],
)
opsets = [helper.make_opsetid("", 13), helper.make_opsetid("qonnx.custom_op.general", 1)]
model = ModelWrapper(helper.make_model(graph, opset_imports=opsets, ir_version=8))
for step in (InferShapes(), FoldConstants(), GiveUniqueNodeNames(), GiveReadableTensorNames(), InferShapes()):
    model = model.transform(step)
(name,) = (value.name for value in model.graph.input)
found = execute_onnx(
    model, {name: random.standard_normal((1, 3, 8, 8)).astype(np.float32)}, return_full_exec_context=True
)
for key in sorted(key for key, value in found.items() if value is not None):
    print(key, list(found[key].shape), np.round(np.ravel(found[key])[:4].astype(float), 4).tolist())
