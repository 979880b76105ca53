# needs: scipy --no-deps: brainmaze-utils brainmaze-eeg-models
"""Find sleep spindles and the probability of seizures in recordings that are made here."""

import numpy as np
from brainmaze_eeg_models.seizure import predict_channel_seizure_probability
from brainmaze_eeg_models.spindles import SpindleDetector

RATE = 256
random = np.random.default_rng(0)
time = np.arange(60 * RATE) / RATE
asleep = random.standard_normal((2, time.size)) * 10
for start in (12.0, 31.5, 47.0):
    asleep[0] += 60 * np.exp(-(((time - start) / 0.5) ** 2)) * np.sin(2 * np.pi * 13.5 * time)
for name in ("eeg", "ieeg"):
    found = SpindleDetector(model=name).detect(asleep, RATE)
    print(name, [np.round(found.channel_intervals(channel), 3).tolist() for channel in range(2)])
time = np.arange(420 * RATE) / RATE
seizure = random.standard_normal(time.size) * 20
seizure += np.where((time >= 200) & (time < 260), 300 * np.sign(np.sin(2 * np.pi * 4 * time)), 0)
for name in ("modelA", "modelB"):
    _, found = predict_channel_seizure_probability(seizure, RATE, name)
    print(name, [f"{p:.4f}" for p in np.ravel(found)[::60]])
