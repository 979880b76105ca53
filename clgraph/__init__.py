"""clgraph: a graph compiler and runtime that takes an ONNX model and runs it on any OpenCL device."""

__version__ = "0.1.0"
