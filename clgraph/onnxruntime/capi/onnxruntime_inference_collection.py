"""The classes that programs use, where ONNX Runtime defines them."""

from clgraph.onnxruntime.base import Session
from clgraph.onnxruntime.binding import IOBinding
from clgraph.onnxruntime.devices import OrtDevice, get_ort_device_type
from clgraph.onnxruntime.session import InferenceSession
from clgraph.onnxruntime.sparse import SparseTensor
from clgraph.onnxruntime.values import OrtValue, copy_tensors

__all__ = [
    "IOBinding",
    "InferenceSession",
    "OrtDevice",
    "OrtValue",
    "Session",
    "SparseTensor",
    "copy_tensors",
    "get_ort_device_type",
]
