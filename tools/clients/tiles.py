# needs: --no-deps: azcrawlerpy-recaptcha-google
"""Find things in the tiles of a picture: two networks, for nine and for sixteen tiles, batches of every size."""

from importlib.resources import files

import numpy as np
import onnxruntime

rng = np.random.default_rng(0)
for size in ("3x3", "4x4"):
    path = files("azcrawlerpy_recaptcha_google") / f"tesseranet_{size}.onnx"
    session = onnxruntime.InferenceSession(str(path), providers=onnxruntime.get_available_providers()[-1:])
    entry = session.get_inputs()[0]
    print(entry.name, entry.type, entry.shape, [(o.name, o.shape) for o in session.get_outputs()])
    for batch in (9, 1, 4) if size == "3x3" else (1, 2):
        shape = [batch, *entry.shape[1:]]
        results = session.run(None, {entry.name: rng.random(shape, "f")})
        for output, found in zip(session.get_outputs(), results, strict=True):
            print(size, batch, output.name, found.shape, f"{found.mean():.5f} {found.max():.5f}")
