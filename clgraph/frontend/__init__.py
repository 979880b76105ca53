"""Reading models; the only place that imports onnx."""
