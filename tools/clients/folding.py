# needs: --no-deps: onnx-graphsurgeon polygraphy
"""Fold constants with ONNX GraphSurgeon, which runs the nodes for it; compare the graph before and after."""

import numpy as np
import onnx_graphsurgeon as gs
from onnx import TensorProto, helper, numpy_helper
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, DataLoader
from polygraphy.logger import G_LOGGER

G_LOGGER.module_severity = G_LOGGER.CRITICAL
w = np.sin(np.arange(96, dtype=np.float32)).reshape(8, 12)
nodes = [
    helper.make_node("Transpose", ["w"], ["wt"]),
    helper.make_node("Mul", ["wt", "two"], ["scaled"]),
    helper.make_node("Shape", ["wt"], ["shape"]),
    helper.make_node("ReduceMax", ["shape"], ["most"], keepdims=0),
    helper.make_node("Cast", ["most"], ["divisor"], to=TensorProto.FLOAT),
    helper.make_node("MatMul", ["x", "scaled"], ["product"]),
    helper.make_node("Div", ["product", "divisor"], ["y"]),
]
x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", k]) for n, k in (("x", 12), ("y", 8)))
constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.float32(2), "two")]
graph = helper.make_graph(nodes, "g", [x], [y], constants)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

folded = gs.export_onnx(gs.import_onnx(model).fold_constants().cleanup())
print([node.op_type for node in folded.graph.node])
print({t.name: round(float(numpy_helper.to_array(t).sum()), 3) for t in folded.graph.initializer})
runners = [OnnxrtRunner(SessionFromOnnx(m.SerializeToString())) for m in (model, folded)]
found = Comparator.run(runners, data_loader=DataLoader(iterations=2))
print(bool(Comparator.compare_accuracy(found)))
for iterations in found.values():
    print([round(float(outputs["y"].sum()), 3) for outputs in iterations])
