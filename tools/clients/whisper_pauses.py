# needs: faster-whisper
"""Where faster-whisper's detector hears speech in a made sound."""

import numpy as np
from faster_whisper.vad import VadOptions, get_speech_timestamps, get_vad_model

time = np.arange(187 * 512) / 16000
spoken = (time > 1.5) & (time < 4)
sound = 0.003 * np.random.default_rng(0).standard_normal(len(time))
for k in range(1, 12):
    sound += np.sin(2 * np.pi * 150 * k * time) * spoken * 0.2 / k * (1 + np.sin(2 * np.pi * 4 * time))
sound = sound.astype(np.float32)
print([f"{p:.3f}" for p in get_vad_model()(sound).ravel()[::8]])
print(get_speech_timestamps(sound, VadOptions(threshold=0.3)))
