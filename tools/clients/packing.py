# needs: sympy onnx_ir onnxslim onnxsim onnxconverter-common
"""Make a network smaller, in every way that asks a session on the way: calibration, few bits, halves, simplifying."""

import numpy as np
import onnx
import onnxruntime
import onnxsim
import onnxslim
from onnx import TensorProto, helper, numpy_helper
from onnxconverter_common import auto_mixed_precision
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from onnxruntime.quantization.shape_inference import quant_pre_process

RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.standard_normal((6, 3, 16, 16)).astype(np.float32)


class Pictures(CalibrationDataReader):
    """The pictures, one at a time."""

    def __init__(self) -> None:
        self._left = iter(PICTURES[:, None])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next."""
        return next(({"x": picture} for picture in self._left), None)


def network() -> onnx.ModelProto:
    """Return two convolutions and a product."""
    sizes = {"a": (16, 3, 3, 3), "b": (16, 16, 3, 3), "c": (16, 32)}
    weights = {n: (RANDOM.standard_normal(s) / np.sqrt(np.prod(s[1:]))).astype(np.float32) for n, s in sizes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["1"], pads=[1] * 4),
        helper.make_node("Relu", ["1"], ["2"]),
        helper.make_node("Conv", ["2", "b"], ["3"], pads=[1] * 4),
        helper.make_node("Add", ["2", "3"], ["4"]),
        helper.make_node("GlobalAveragePool", ["4"], ["5"]),
        helper.make_node("Flatten", ["5"], ["6"]),
        helper.make_node("MatMul", ["6", "c"], ["y"], name="product"),
    ]
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])]
    graph = helper.make_graph(nodes, "g", values, results, [numpy_helper.from_array(w, n) for n, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def shown(what: str, source: str | bytes, digits: int) -> None:
    """Print what a session makes of the first two pictures."""
    results = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, {"x": PICTURES[:2]})
    print(what, np.round(results[0][:, :4].astype(np.float64), digits).ravel().tolist())


onnx.save(network(), "network.onnx")
quant_pre_process("network.onnx", "prepared.onnx")
for method in (CalibrationMethod.MinMax, CalibrationMethod.Entropy, CalibrationMethod.Percentile):
    quantize_static("prepared.onnx", "bytes.onnx", Pictures(), quant_format=QuantFormat.QDQ, calibrate_method=method)
    scales = {i.name: numpy_helper.to_array(i) for i in onnx.load("bytes.onnx").graph.initializer if "scale" in i.name}
    print(method, {name: round(float(scale), 4) for name, scale in sorted(scales.items())})
for bits in (4, 8):
    packer = MatMulNBitsQuantizer(network(), algo_config=DefaultWeightOnlyQuantConfig(block_size=16, bits=bits))
    packer.process()
    shown(f"{bits} bits", packer.model.model.SerializeToString(), 3)
halves = auto_mixed_precision.auto_convert_mixed_precision(
    network(), {"x": PICTURES[:2]}, rtol=0.1, atol=0.01, keep_io_types=True
)
shown("halves", halves.SerializeToString(), 1)
shown("slim", onnxslim.slim(network(), model_check=True).SerializeToString(), 3)
simple, checked = onnxsim.simplify(network(), check_n=2, test_input_shapes={"x": [2, 3, 16, 16]})
shown(f"simple {checked}", simple.SerializeToString(), 3)
