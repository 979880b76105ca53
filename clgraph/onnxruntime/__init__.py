"""ONNX Runtime's Python interface, answered by clgraph: ``import clgraph.onnxruntime as onnxruntime``.

:func:`install` makes ``import onnxruntime`` find it, ``python -m clgraph.as_onnxruntime`` runs unmodified programs so.
See https://onnxruntime.ai/docs/api/python/api_summary.html.
"""

from clgraph.onnxruntime import capi
from clgraph.onnxruntime.adapters import AdapterFormat, LoraAdapter
from clgraph.onnxruntime.binding import IOBinding
from clgraph.onnxruntime.binding import IOBinding as SessionIOBinding
from clgraph.onnxruntime.capi import onnxruntime_validation
from clgraph.onnxruntime.compiling import (
    ModelCompiler,
    OrtExternalInitializerInfo,
)
from clgraph.onnxruntime.described import (
    ModelMetadata,
    NodeArg,
    OrtEpAssignedNode,
    OrtEpAssignedSubgraph,
)
from clgraph.onnxruntime.devices import OrtArenaCfg, OrtDevice, OrtMemoryInfo
from clgraph.onnxruntime.enumerations import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    ModelPackageWriteMode,
    OrtAllocatorType,
    OrtCompileApiFlags,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtExecutionProviderDevicePolicy,
    OrtHardwareDeviceType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    OrtSparseFormat,
)
from clgraph.onnxruntime.environment import (
    create_and_register_allocator,
    create_and_register_allocator_v2,
    disable_telemetry_events,
    enable_telemetry_events,
    get_build_info,
    get_device,
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
from clgraph.onnxruntime.hardware import (
    OrtEpDevice,
    OrtHardwareDevice,
    get_ep_devices,
)
from clgraph.onnxruntime.installing import install, uninstall
from clgraph.onnxruntime.names import __version__, is_installed
from clgraph.onnxruntime.options import SessionOptions
from clgraph.onnxruntime.packages import (
    ModelPackage,
    ModelPackageComponentContext,
    ModelPackageContext,
    ModelPackageOptions,
    OrtEpContextData,
    OrtEpContextDataBuffer,
    OrtSyncStream,
)
from clgraph.onnxruntime.providers import get_all_providers, get_available_providers
from clgraph.onnxruntime.run_options import RunOptions
from clgraph.onnxruntime.session import InferenceSession
from clgraph.onnxruntime.sparse import SparseTensor
from clgraph.onnxruntime.value_lists import copy_tensors
from clgraph.onnxruntime.values import OrtValue

package_name, version, cuda_version = "onnxruntime", __version__, ""

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
    "ModelPackage",
    "ModelPackageComponentContext",
    "ModelPackageContext",
    "ModelPackageOptions",
    "ModelPackageWriteMode",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtEpAssignedNode",
    "OrtEpAssignedSubgraph",
    "OrtEpContextData",
    "OrtEpContextDataBuffer",
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtExternalInitializerInfo",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType",
    "OrtSparseFormat",
    "OrtSyncStream",
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
    "cuda_version",
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
