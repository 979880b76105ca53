# needs: torch packaging --no-deps: silero-vad
"""Tell speech from noise in chunks of 32 ms: an LSTM of one step, with If around it. Torch takes gigabytes."""

import numpy as np
import torch
from silero_vad import get_speech_timestamps, load_silero_vad

RATE = 16000

time = np.arange(RATE * 4) / RATE
wavering = 2 * np.pi * time * (1 + 0.01 * np.sin(31 * time))
tones = sum(np.sin(f * wavering) / k for k, f in enumerate((140, 280, 420, 700), 1))
sound = 0.3 * tones * ((time % 2) < 1) + 0.005 * np.random.default_rng(0).standard_normal(len(time))
model = load_silero_vad(onnx=True)
chunks = torch.tensor(sound, dtype=torch.float32).split(512)[:-1]
print(*(f"{float(model(chunk, RATE)):.3f}" for chunk in chunks[::4]))
print(get_speech_timestamps(torch.tensor(sound, dtype=torch.float32), model, threshold=0.1))
