"""Other runtimes to compare with: the same models and arrays, if they are installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clgraph.errors import OptionError
from clgraph.graph.primitive import Array


def require_onnxruntime() -> Any:
    """Return its module. Raises ``OptionError`` where it is not installed."""
    try:
        import onnxruntime
    except ImportError as error:
        raise OptionError("onnxruntime is not installed: pip install onnxruntime") from error
    return onnxruntime


class OnnxRuntime:
    """A model on ONNX Runtime's CPU provider."""

    def __init__(self, model: Path, threads: int | None = None) -> None:
        """Open *model* with *threads* threads; all cores by default.

        Raises:
            OptionError: ONNX Runtime is not installed, or does not read the model.
        """
        onnxruntime = require_onnxruntime()
        if onnxruntime.__name__.startswith("clgraph"):
            raise OptionError(
                "clgraph replaces onnxruntime in this process: call clgraph.onnxruntime.uninstall() first"
            )
        onnxruntime.set_default_logger_severity(3)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads or 0, 1
        self.model = model
        self.version: str = onnxruntime.__version__
        try:
            self._session: Any = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own classes derive from nothing else in common
            raise OptionError(f"onnxruntime does not read {model}: {_line(error)}") from error

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return every output by name. Raises ``OptionError`` where ONNX Runtime fails."""
        try:
            results = self._session.run(None, dict(feeds))
        except Exception as error:  # as above
            raise OptionError(f"onnxruntime does not run {self.model}: {_line(error)}") from error
        return dict(zip([o.name for o in self._session.get_outputs()], results, strict=True))

    def __call__(self, array: Array) -> Array:
        """Return the first output of a model of one input."""
        return next(iter(self.run({self._session.get_inputs()[0].name: array}).values()))


class OpenVino:
    """A model on OpenVINO's CPU device, for one request at a time in float32, as clgraph computes."""

    def __init__(self, model: Path, threads: int | None = None) -> None:
        """Open *model* with *threads* threads; all cores by default.

        Raises:
            OptionError: OpenVINO is not installed, or does not read the model.
        """
        try:
            import openvino
        except ImportError as error:
            raise OptionError("openvino is not installed: pip install openvino") from error
        options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        if threads is not None:
            options["INFERENCE_NUM_THREADS"] = str(threads)
        self.model = model
        self.version: str = openvino.__version__
        try:
            self._compiled: Any = openvino.Core().compile_model(str(model), "CPU", options)
        except Exception as error:  # openvino raises RuntimeError, and others by what is wrong
            raise OptionError(f"openvino does not read {model}: {_line(error)}") from error
        self._request = self._compiled.create_infer_request()

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return every output by name. Raises ``OptionError`` where OpenVINO fails."""
        try:
            results = self._request.infer(dict(feeds), share_inputs=True)
        except Exception as error:  # as above
            raise OptionError(f"openvino does not run {self.model}: {_line(error)}") from error
        return {output.any_name: np.array(results[output]) for output in self._compiled.outputs}


PEERS: Mapping[str, type[OnnxRuntime | OpenVino]] = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}
"""By the name that users give."""


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
