# needs: librosa setuptools<81 --no-deps: speechmos
"""Estimate how good speech sounds: the scores of DNSMOS, of what is left of an echo, and of lost packets."""

import numpy as np
from speechmos import aecmos, dnsmos, plcmos

RATE = 16000

np.random.seed(0)  # noqa: NPY002  # PLCMOS draws raters by it
time = np.arange(RATE * 10) / RATE
wavering = 2 * np.pi * time * (1 + 0.01 * np.sin(7 * time))
tones = sum(np.sin(f * wavering) / k for k, f in enumerate((140, 280, 420, 700), 1))
noise = np.random.default_rng(0).standard_normal(len(time))
sound = (0.1 * tones * ((time % 2) < 1.3) + 0.01 * noise).astype(np.float32)
echo = {"lpb": sound[::-1].copy() * 0.3, "mic": sound, "enh": sound * 0.7}
for found in (dnsmos.run(sound, sr=RATE), plcmos.run(sound, sr=RATE), aecmos.run(echo, sr=RATE, talk_type="st")):
    print({name: round(float(score), 3) for name, score in found.items() if isinstance(score, float | np.floating)})
