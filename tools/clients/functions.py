# needs: --no-deps: onnxruntime-easy
"""Call sessions like functions of lists, and ask for outputs for a while, as onnxruntime-easy wraps them."""

import onnx
import onnxruntime_easy
from onnx import TensorProto, helper


def network(kind: int) -> onnx.ModelProto:
    """Return products, and their sum along two axes."""
    nodes = [
        helper.make_node("Mul", ["x", "y"], ["product"]),
        helper.make_node("ReduceSum", ["product"], ["sum"], keepdims=0),
    ]
    values = [helper.make_tensor_value_info(name, kind, ["n", 3]) for name in ("x", "y")]
    results = [helper.make_tensor_value_info("product", kind, ["n", 3]), helper.make_tensor_value_info("sum", kind, [])]
    graph = helper.make_graph(nodes, "g", values, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


for kind, begin in ((TensorProto.DOUBLE, 0.5), (TensorProto.INT64, 1)):
    onnx.save(network(kind), "network.onnx")
    session = onnxruntime_easy.load("network.onnx", device="cpu", graph_optimization_level="basic")
    x = onnxruntime_easy.ort_value([[begin + i for i in range(3)]] * 2)
    product, total = session(x, y=x)
    print(session, product.data_type(), product.shape(), product.numpy().tolist(), total.numpy())
    with session.set_outputs("sum"):
        print([value.numpy().tolist() for value in session(x, x)])
    print(len(session(x, x)))
