# needs: --no-deps: chython-rxnmap
"""Which atoms of a reaction become which: a transformer over atoms and the distances between them."""

import numpy as np
import onnxruntime as ort
from chython_rxnmap import model_path

session = ort.InferenceSession(model_path)
random = np.random.default_rng(0)
for count in (9, 14):
    distances = random.integers(2, 9, (1, count, count))
    attention = session.run(
        None,
        {
            "atoms": random.integers(3, 20, (1, count)),
            "neighbors": random.integers(2, 6, (1, count)),
            "distances": np.maximum(distances, distances.transpose(0, 2, 1)),
            "roles": np.repeat([2, 3], [count // 2, count - count // 2])[None],
        },
    )[0]
    print(attention.shape, np.round(attention[0], 3).tolist(), attention.argmax(1).tolist())
