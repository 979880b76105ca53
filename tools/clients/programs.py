# needs: malvizv1
"""Tell families of harmful programs by the pictures that their bytes make: a ResNet with its weights in a file."""

import tempfile
from pathlib import Path

import numpy as np
from malvizv1 import scanner
from PIL import Image

random = np.random.default_rng(0)
session = scanner.ort.InferenceSession(scanner.get_model_path(), providers=["CPUExecutionProvider"])
names = scanner.load_class_names()
for kind in ("noise", "text", "code"):
    data = {
        "noise": random.integers(0, 256, 60000).astype(np.uint8),
        "text": np.frombuffer(b"the quick brown fox jumps over the lazy dog " * 900, np.uint8),
        "code": np.tile(random.integers(0, 64, 4096).astype(np.uint8), 12),
    }[kind]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.exe")
        path.write_bytes(data.tobytes())
        picture = scanner.pe_file_to_image_dynamic(path)
    assert isinstance(picture, Image.Image)
    logits = session.run(None, {session.get_inputs()[0].name: scanner.preprocess_image(picture)})[0]
    scores = scanner.softmax(logits)[0]
    print(kind, *(f"{names[i]} {scores[i]:.4f}" for i in np.argsort(-scores, kind="stable")[:3]))
