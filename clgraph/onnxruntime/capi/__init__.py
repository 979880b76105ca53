"""The modules behind ONNX Runtime's interface that programs import by name, or take from here without importing."""

from importlib import import_module
from typing import Any

_MODULES = (
    "_pybind_state",
    "build_and_package_info",
    "onnxruntime_inference_collection",
    "onnxruntime_pybind11_state",
    "onnxruntime_validation",
)


def __getattr__(name: str) -> Any:
    """Import a module when it is first asked for; raises ``AttributeError`` for another name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
