"""The object of ONNX Runtime's extension module behind a session, which programs find in ``_sess``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clgraph.onnxruntime.value_lists import OrtValueVector
from clgraph.onnxruntime.values import OrtValue


class Inner:
    """A session whose values come first where they are fed as such."""

    def __init__(self, session: Any) -> None:
        """Take the session."""
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *dir(self._session)]

    def run_with_ort_values(
        self, feeds: Mapping[str, Any], names: Sequence[str], options: Any = None
    ) -> OrtValueVector:
        """Return the results of a run."""
        return OrtValueVector(self._session.run_with_ort_values(names, feeds, options))

    def create_ortvalue_from_shape_and_onnx_type(
        self, shape: Sequence[int], onnx_element_type: int, device: Any
    ) -> OrtValue:
        """Return a value of zeros of ONNX's element type."""
        return OrtValue.ortvalue_from_shape_and_onnx_type(shape, onnx_element_type, device)

    def is_webgpu_graph_capture_enabled(self) -> bool:
        """Return ``False``: nothing is captured."""
        return False

    def webgpu_context_id(self) -> int:
        """Return the number of no context of WebGPU."""
        return -1
