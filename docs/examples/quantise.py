"""Quantise ``model.onnx`` in each of the forms that ONNX Runtime's quantiser writes."""

from collections.abc import Iterable, Mapping

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

quant_pre_process("model.onnx", "prepared.onnx", skip_symbolic_shape=True)


class Inputs(CalibrationDataReader):
    """Returns one dictionary of inputs a call, then ``None``."""

    def __init__(self, feeds: Iterable[Mapping[str, np.ndarray]]) -> None:
        """Go through *feeds* once."""
        self.left = iter(feeds)

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        """Return the next inputs."""
        return next(self.left, None)


random = np.random.default_rng(0)
pictures = [{"x": random.standard_normal((1, 3, 64, 64)).astype(np.float32)} for _ in range(8)]

quantize_static("prepared.onnx", "static.onnx", Inputs(pictures))
quantize_static("prepared.onnx", "channels.onnx", Inputs(pictures), per_channel=True)
quantize_static("prepared.onnx", "operators.onnx", Inputs(pictures), quant_format=QuantFormat.QOperator)
quantize_dynamic("prepared.onnx", "dynamic.onnx")
