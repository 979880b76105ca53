# needs: audonnx
"""Describe a model of several heads in YAML with what transforms its inputs, as audonnx does, and call it."""

import audonnx
import audonnx.testing
import numpy as np
import onnxruntime

model = audonnx.testing.create_model([[6], [1, -1, 2]], value=0.5, opset_version=14)
print(model)
print({name: value.tolist() for name, value in model(np.arange(6, dtype=np.float32), 8000).items()})
print(model(np.arange(6, dtype=np.float32), 8000, outputs="output-1").shape)
print(model(np.arange(6, dtype=np.float32), 8000, concat=True, outputs=["output-1"]).shape)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
for device in ("cpu", "cuda:0", ["CPUExecutionProvider"]):
    found = audonnx.testing.create_model([[2]], device=device, session_options=options)
    print(device, found(np.ones(2, np.float32), 8000).tolist())
