"""The classes that programs use, where ONNX Runtime defines them."""

from clgraph.onnxruntime.binding import IOBinding
from clgraph.onnxruntime.session import InferenceSession, Session
from clgraph.onnxruntime.values import OrtDevice, OrtValue, SparseTensor, copy_tensors

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue", "Session", "SparseTensor", "copy_tensors"]
