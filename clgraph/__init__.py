"""clgraph: a graph compiler and runtime that runs ONNX models on any OpenCL device.

Public names are imported on first use, so that ``import clgraph`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from os.path import isdir
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clgraph import errors, generate
    from clgraph.compilation.entry import compile_model as compile
    from clgraph.compilation.entry import load_model as load
    from clgraph.compilation.estimating import Estimate, estimate
    from clgraph.compilation.pool import Pool
    from clgraph.core.version import __version__
    from clgraph.debugging.dumped import load_dump
    from clgraph.explorer.entry import view
    from clgraph.extensions.custom_operator import custom_op
    from clgraph.extensions.custom_specs import TensorSpec
    from clgraph.graph.topology import Topology
    from clgraph.model.model import Model
    from clgraph.model.shared import dma_buf, opengl_buffer
    from clgraph.model.state.session import Session
    from clgraph.model.tensor import Tensor
    from clgraph.network.budget import MemoryBudget
    from clgraph.network.cancelling import Cancellation
    from clgraph.ops.preprocess import Preprocess
    from clgraph.runtime.device import devices
    from clgraph.throughput.batching import Batching
    from clgraph.throughput.streamed_model import StreamedModel
    from clgraph.tuner.streams import tune_streams
    from clgraph.tuner.tune import tune

__all__ = [
    "Batching",
    "Cancellation",
    "Estimate",
    "MemoryBudget",
    "Model",
    "Pool",
    "Preprocess",
    "Session",
    "StreamedModel",
    "Tensor",
    "TensorSpec",
    "Topology",
    "__version__",
    "compile",
    "custom_op",
    "devices",
    "dma_buf",
    "errors",
    "estimate",
    "generate",
    "load",
    "load_dump",
    "opengl_buffer",
    "tune",
    "tune_streams",
    "view",
]

_HOMES = {
    "__version__": ("clgraph.core.version", "__version__"),
    "Batching": ("clgraph.throughput.batching", "Batching"),
    "Cancellation": ("clgraph.network.cancelling", "Cancellation"),
    "Estimate": ("clgraph.compilation.estimating", "Estimate"),
    "MemoryBudget": ("clgraph.network.budget", "MemoryBudget"),
    "Model": ("clgraph.model.model", "Model"),
    "Pool": ("clgraph.compilation.pool", "Pool"),
    "Preprocess": ("clgraph.ops.preprocess", "Preprocess"),
    "Session": ("clgraph.model.state.session", "Session"),
    "StreamedModel": ("clgraph.throughput.streamed_model", "StreamedModel"),
    "Tensor": ("clgraph.model.tensor", "Tensor"),
    "TensorSpec": ("clgraph.extensions.custom_specs", "TensorSpec"),
    "Topology": ("clgraph.graph.topology", "Topology"),
    "compile": ("clgraph.compilation.entry", "compile_model"),
    "custom_op": ("clgraph.extensions.custom_operator", "custom_op"),
    "devices": ("clgraph.runtime.device", "devices"),
    "dma_buf": ("clgraph.model.shared", "dma_buf"),
    "estimate": ("clgraph.compilation.estimating", "estimate"),
    "load_dump": ("clgraph.debugging.dumped", "load_dump"),
    "load": ("clgraph.compilation.entry", "load_model"),
    "opengl_buffer": ("clgraph.model.shared", "opengl_buffer"),
    "tune": ("clgraph.tuner.tune", "tune"),
    "tune_streams": ("clgraph.tuner.streams", "tune_streams"),
    "view": ("clgraph.explorer.entry", "view"),
}


if not TYPE_CHECKING:  # a checker of types knows the names above, and shall say so of others

    def __getattr__(name: str) -> Any:
        """Import a public name where it lives, and keep it."""
        if name in ("errors", "generate"):
            return import_module(f"clgraph.{name}")
        if name not in _HOMES:
            from clgraph.core.nearest import meant

            near = "; clgraph.onnxruntime has it" if name == "InferenceSession" else meant(name, __all__)
            raise AttributeError(f"module 'clgraph' has no attribute {name!r}{near}")
        if not isdir(__path__[0]):
            raise ImportError(
                f"clgraph lies in {__path__[0]}, in an archive or a frozen program, but its kernels are files that a "
                "Python interpreter compiles: install it in an environment, where PyInstaller finds its hooks"
            )
        from clgraph.core.collector import PAUSED, count_as_lasting

        module, attribute = _HOMES[name]
        with PAUSED:
            value = getattr(import_module(module), attribute)
            count_as_lasting()
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
