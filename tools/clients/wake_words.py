# needs: numpy scipy scikit-learn tqdm requests --no-deps: openwakeword==0.5.1
"""Listen for wake words: a spectrogram, an embedding and eight classifiers for every 80 ms of sound."""

import numpy as np
from openwakeword.model import Model

sound = np.random.default_rng(0).standard_normal(16000 * 3) * 2000 + 3000 * np.sin(np.arange(16000 * 3) * 0.05)
model = Model(inference_framework="onnx", vad_threshold=0.3)
for start in range(0, len(sound) - 1280, 1280):
    scores = model.predict(sound[start : start + 1280].astype(np.int16))
print(*(f"{x:.3f}" for x in model.preprocessor.get_features(2).ravel()[:8]))
print(*(f"{word} {score:.3f}" for word, score in sorted(scores.items())), sep="\n")
