# needs: --no-deps: flashvad
"""Hear speech in pieces of 100 ms: 10 ms a run, whose states are bound to the outputs of the run before."""

import numpy as np
from flashvad.runtime import OnnxStreamingVadModel

RATE = 16000

time = np.arange(RATE * 3) / RATE
spoken = (time > 1) & (time < 2)
sound = 0.003 * np.random.default_rng(0).standard_normal(len(time))
for k in range(1, 12):
    sound += np.sin(2 * np.pi * 150 * k * time) * spoken * 0.2 / k * (1 + np.sin(2 * np.pi * 4 * time))
stream = OnnxStreamingVadModel.load_bundled().new_stream()
for piece in np.array_split(sound.astype(np.float32), 30):
    likely, events = stream.push(piece)
    print(*(f"{p:.4f}" for p in likely[::4]), *(f"{event.kind} {event.frame}" for event in events))
