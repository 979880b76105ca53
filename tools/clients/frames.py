# needs: soundfile --no-deps: akiki
"""Tell speech from a stream, 16 ms a step: a gated recurrent cell whose state comes back with every frame."""

import numpy as np
from akiki import VAD

time = np.arange(16000 * 3) / 16000
wavering = 2 * np.pi * time * (1 + 0.01 * np.sin(31 * time))
voice = sum(np.sin(f * wavering) / k for k, f in enumerate((140, 280, 420, 700), 1))
sound = (0.1 * voice * ((time % 1.5) < 0.8) + 0.002 * np.random.default_rng(0).standard_normal(len(time))).astype("f")
with VAD(engine="onnx") as detector:
    for piece in np.array_split(sound, 7):
        for frame in detector.push(piece):
            print(f"{frame.start_seconds:.3f} {frame.probability:.4f}", frame.speech)
    print(f"{np.abs(detector.state).mean():.4f}", detector.completed_samples)
