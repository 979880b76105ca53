"""The classes that programs use, where ONNX Runtime defines them."""

from clgraph.onnxruntime.adapters import (
    AdapterFormat,
)
from clgraph.onnxruntime.base import Session
from clgraph.onnxruntime.binding import IOBinding
from clgraph.onnxruntime.compiling import (
    ModelCompiler,
)
from clgraph.onnxruntime.devices import (
    OrtDevice,
    get_ort_device_type,
    get_vendor_id_for_device_type,
)
from clgraph.onnxruntime.enumerations import (
    OrtDeviceVendorId,
)
from clgraph.onnxruntime.providers import (
    check_and_normalize_provider_args,
)
from clgraph.onnxruntime.session import InferenceSession
from clgraph.onnxruntime.sparse import SparseTensor
from clgraph.onnxruntime.value_lists import copy_tensors
from clgraph.onnxruntime.values import OrtValue

__all__ = [
    "AdapterFormat",
    "IOBinding",
    "InferenceSession",
    "ModelCompiler",
    "OrtDevice",
    "OrtDeviceVendorId",
    "OrtValue",
    "Session",
    "SparseTensor",
    "check_and_normalize_provider_args",
    "copy_tensors",
    "get_ort_device_type",
    "get_vendor_id_for_device_type",
]
