"""ONNX Runtime's Python interface, answered by clgraph: ``import clgraph.onnxruntime as onnxruntime``.

:func:`install` makes ``import onnxruntime`` find it, ``python -m clgraph.as_onnxruntime`` runs unmodified programs so.
See https://onnxruntime.ai/docs/api/python/api_summary.html.
"""

from clgraph.onnxruntime import capi
from clgraph.onnxruntime.adapters import AdapterFormat, LoraAdapter
from clgraph.onnxruntime.binding import IOBinding
from clgraph.onnxruntime.binding import IOBinding as SessionIOBinding
from clgraph.onnxruntime.capi import onnxruntime_validation
from clgraph.onnxruntime.compiling import ModelCompiler
from clgraph.onnxruntime.described import ModelMetadata, NodeArg
from clgraph.onnxruntime.devices import OrtArenaCfg, OrtDevice, OrtMemoryInfo
from clgraph.onnxruntime.enumerations import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtCompileApiFlags,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtExecutionProviderDevicePolicy,
    OrtMemType,
    OrtSparseFormat,
)
from clgraph.onnxruntime.environment import (
    __version__,
    create_and_register_allocator,
    create_and_register_allocator_v2,
    disable_telemetry_events,
    enable_telemetry_events,
    get_build_info,
    get_device,
    get_ep_devices,
    get_version_string,
    has_collective_ops,
    preload_dlls,
    print_debug_info,
    register_execution_provider_library,
    set_default_logger_callback,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
    unregister_execution_provider_library,
)
from clgraph.onnxruntime.installing import install, uninstall
from clgraph.onnxruntime.names import is_installed
from clgraph.onnxruntime.options import RunOptions, SessionOptions
from clgraph.onnxruntime.providers import get_all_providers, get_available_providers
from clgraph.onnxruntime.session import InferenceSession
from clgraph.onnxruntime.sparse import SparseTensor
from clgraph.onnxruntime.values import OrtValue, copy_tensors

package_name, version = "onnxruntime", __version__

__all__ = [
    "AdapterFormat",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "LoraAdapter",
    "ModelCompiler",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtExecutionProviderDevicePolicy",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtSparseFormat",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "SparseTensor",
    "__version__",
    "capi",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "install",
    "is_installed",
    "onnxruntime_validation",
    "package_name",
    "preload_dlls",
    "print_debug_info",
    "register_execution_provider_library",
    "set_default_logger_callback",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "uninstall",
    "unregister_execution_provider_library",
    "version",
]
