"""The modules behind ONNX Runtime's interface that programs import by name."""
