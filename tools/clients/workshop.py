# needs: sympy
"""Use what ONNX Runtime's package itself brings for files: its backend, debugger of quantisation, and small tools."""

import contextlib
import io
import logging
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import onnxruntime.backend
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.datasets import get_example
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, quantize_static
from onnxruntime.quantization import qdq_loss_debug as losses
from onnxruntime.tools import onnx_model_utils
from onnxruntime.tools.mobile_helpers import usability_checker
from onnxruntime.tools.onnxruntime_test import run_model
from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference
from onnxruntime.transformers.float16 import convert_float_to_float16

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 16)).astype(np.float32)


class Rows(CalibrationDataReader):
    """The rows, two at a time."""

    def __init__(self) -> None:
        self._left = iter([X[:2], X[2:]])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next."""
        return next(({"x": rows} for rows in self._left), None)


weights = (RANDOM.standard_normal((16, 8)) / 4).astype(np.float32)
bias = RANDOM.standard_normal(8).astype(np.float32)
nodes = [
    helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
    helper.make_node("Add", ["product", "b"], ["sum"], name="sum"),
    helper.make_node("Relu", ["sum"], ["y"], name="relu"),
]
values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16])]
results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])]
held = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")]
graph = helper.make_graph(nodes, "g", values, results, held)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
onnx.save(model, "network.onnx")


def shown(what: object, found: np.ndarray, digits: int = 3) -> None:
    """Print four numbers."""
    print(what, np.round(np.ravel(found)[:4].astype(float), digits).tolist())


shown("backend", onnxruntime.backend.prepare("network.onnx", device="CPU").run(X)[0])
print(onnxruntime.backend.supports_device("CPU"), onnxruntime.backend.is_compatible(model))
for name in ("mul_1.onnx", "sigmoid.onnx", "logreg_iris.onnx"):
    session = onnxruntime.InferenceSession(get_example(name), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    x = RANDOM.random([size if isinstance(size, int) else 3 for size in given.shape]).astype(np.float32)
    shown(name, np.asarray(session.run(None, {given.name: x})[0]))
onnx_model_utils.optimize_model(
    Path("network.onnx"), Path("optimised.onnx"), onnx_model_utils.get_optimization_level("basic")
)
fixed = onnx.load("network.onnx")
onnx_model_utils.make_dim_param_fixed(fixed.graph, "n", 4)
onnx_model_utils.fix_output_shapes(fixed)
print([list(v.shape) for v in onnxruntime.InferenceSession(fixed.SerializeToString()).get_outputs()])
print([v.name for v in SymbolicShapeInference.infer_shapes(model, auto_merge=True).graph.value_info])
with contextlib.redirect_stdout(io.StringIO()) as said:
    run_model("network.onnx", num_iters=2)
print("avg" in said.getvalue().lower())
quiet = logging.getLogger("workshop")
quiet.setLevel(logging.ERROR)
print(usability_checker.analyze_model(Path("network.onnx"), skip_optimize=False, logger=quiet))
for form in (QuantFormat.QDQ, QuantFormat.QOperator):
    for method in (CalibrationMethod.MinMax, CalibrationMethod.Entropy, CalibrationMethod.Percentile):
        quantize_static("network.onnx", "bytes.onnx", Rows(), quant_format=form, calibrate_method=method)
        shown((form, method), onnxruntime.InferenceSession("bytes.onnx").run(None, {"x": X})[0], 1)
quantize_static("network.onnx", "bytes.onnx", Rows())
activations = []
for source, target in (("network.onnx", "all.onnx"), ("bytes.onnx", "all_bytes.onnx")):
    losses.modify_model_output_intermediate_tensors(source, target)
    activations.append(losses.collect_activations(target, Rows()))
matched = losses.create_activation_matching(activations[1], activations[0])
for name, errors in sorted(losses.compute_activation_error(matched).items()):
    print(name, {kind: round(float(error)) for kind, error in sorted(errors.items())})
print(sorted(losses.create_weight_matching("network.onnx", "bytes.onnx")))
halves = convert_float_to_float16(onnx.load("network.onnx"), keep_io_types=True)
shown("halves", onnxruntime.InferenceSession(halves.SerializeToString()).run(None, {"x": X})[0], 1)
