"""``Session``: what programs ask of sessions beside running them: what means nothing here, and names behind names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clgraph.onnxruntime.devices import OrtMemoryInfo
from clgraph.onnxruntime.hardware import HOST_MEMORY
from clgraph.onnxruntime.inner import Inner
from clgraph.onnxruntime.notes import say_once
from clgraph.onnxruntime.providers import CPU

_METHODS = {
    "_inputs_meta": "get_inputs",
    "_model_meta": "get_modelmeta",
    "_outputs_meta": "get_outputs",
    "_overridable_initializers": "get_overridable_initializers",
    "_provider_options": "get_provider_options",
    "_providers": "get_providers",
    "_profiling_start_time_ns": "get_profiling_start_time_ns",
    "_sess_options": "get_session_options",
    "input_epdevices": "get_input_epdevices",
    "input_meminfos": "get_input_memory_infos",
    "inputs_meta": "get_inputs",
    "model_meta": "get_modelmeta",
    "output_meminfos": "get_output_memory_infos",
    "outputs_meta": "get_outputs",
    "overridable_initializers": "get_overridable_initializers",
    "session_options": "get_session_options",
}
"""Public methods, by attributes of ONNX Runtime's session, and of the object in its ``_sess``, that hold the same."""


class Session:
    """Base of :class:`InferenceSession`, as programs name it."""

    _source: str | bytes
    _enable_fallback: bool = True
    _fallback_providers = (CPU,)
    _read_config_from_model = False

    def get_inputs(self) -> Sequence[Any]:
        """Return the inputs that have to be fed."""
        raise NotImplementedError

    def get_outputs(self) -> Sequence[Any]:
        """Return the outputs."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self, _METHODS[name])()

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_METHODS]

    def run_with_ort_values(self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None) -> list[Any]:
        """Return results as values."""
        raise NotImplementedError

    @property
    def _sess(self) -> Inner:
        return Inner(self)

    @property
    def _model_path(self) -> str | None:
        return self._source if isinstance(self._source, str) else None

    @property
    def _model_bytes(self) -> bytes | None:
        return self._source if isinstance(self._source, bytes) else None

    def enable_fallback(self) -> None:
        """Return at once: a session always runs on what it was compiled for."""
        self._enable_fallback = True

    def disable_fallback(self) -> None:
        """Return at once: a session always runs on what it was compiled for."""
        self._enable_fallback = False

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return where the inputs are read from: the host's memory, each."""
        return [HOST_MEMORY] * len(self.get_inputs())

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return where the results are written to: the host's memory, each."""
        return [HOST_MEMORY] * len(self.get_outputs())

    def get_tuning_results(self) -> list[Any]:
        """Return what ONNX Runtime's tuning has found: nothing, clgraph's is ``clgraph tune``."""
        return []

    def set_tuning_results(self, results: Any, *, error_on_invalid: bool = False) -> None:
        """Log that clgraph measures by itself."""
        say_once("set_tuning_results: clgraph goes by the measurements of clgraph tune")

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Log that options are those of the session."""
        for name, value in options.items():
            say_once(f"set_ep_dynamic_options({name} = {value}): no meaning in clgraph")

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Return at once: nothing is captured."""
