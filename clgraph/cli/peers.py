"""ONNX Runtime, to compare with: the same models and arrays, if it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clgraph.errors import OptionError
from clgraph.graph.primitive import Array


class OnnxRuntime:
    """A model on ONNX Runtime's CPU provider."""

    def __init__(self, model: Path, threads: int | None = None) -> None:
        """Open *model* with *threads* threads; all cores by default.

        Raises:
            OptionError: ONNX Runtime is not installed, or does not read the model.
        """
        try:
            import onnxruntime
        except ImportError as error:
            raise OptionError("onnxruntime is not installed: pip install onnxruntime") from error
        if onnxruntime.__name__.startswith("clgraph"):
            raise OptionError(
                "clgraph stands in for onnxruntime in this process: clgraph.onnxruntime.uninstall() first"
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


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
