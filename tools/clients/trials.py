# needs: --no-deps: sit4onnx
"""Try networks on random and given inputs, with sizes for open axes, as the simple tools for ONNX do."""

import contextlib
import io

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sit4onnx import inference

random = np.random.default_rng(0)
weights = random.standard_normal((4, 3, 3, 3)).astype(np.float32)
nodes = [
    helper.make_node("Conv", ["x", "w"], ["1"], pads=[1] * 4, name="convolution"),
    helper.make_node("GlobalMaxPool", ["1"], ["2"], name="pool"),
    helper.make_node("Flatten", ["2"], ["y"], name="flat"),
]
values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w_"])]
results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])]
graph = helper.make_graph(nodes, "g", values, results, [numpy_helper.from_array(weights, "w")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "network.onnx")
given = random.standard_normal((2, 3, 16, 16)).astype(np.float32)
for further in ({"numpy_ndarrays_for_testing": [given]}, {"batch_size": 3, "fixed_shapes": [8, 3, 8, 8]}):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        found = inference(
            input_onnx_file_path="network.onnx", test_loop_count=2, onnx_execution_provider="cpu", **further
        )
    print([list(value.shape) for value in found])
    if "batch_size" not in further:  # the others are random
        print(np.round(np.ravel(found[0]).astype(float), 3).tolist())
