# needs: --no-deps: surfaces-onnx-files
"""What training would have scored: boosted trees in place of experiments."""

from pathlib import Path

import numpy as np
import onnxruntime as ort
import surfaces_onnx_files

points = np.random.default_rng(0).random((5, 4)).astype(np.float32) * 3
for path in sorted(Path(surfaces_onnx_files.__file__).parent.glob("*.onnx")):
    session = ort.InferenceSession(path)
    print(path.name, *(np.asarray(result).ravel().tolist() for result in session.run(None, {"input": points})))
