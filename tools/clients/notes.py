# needs: librosa mir_eval pretty_midi resampy scikit-learn setuptools<81 --no-deps: basic-pitch==0.4.0
"""Find the notes of a melody: a harmonic transform and convolutions over seconds of sound."""

from pathlib import Path

import basic_pitch
import numpy as np
import soundfile
from basic_pitch.inference import Model, predict

RATE = 22050

time = np.arange(RATE) / RATE
sound = np.concatenate([0.3 * np.sin(2 * np.pi * pitch * time) for pitch in (440, 660, 262)]).astype(np.float32)
model = Model(Path(basic_pitch.__file__).parent / "saved_models" / "icassp_2022" / "nmp.onnx")
soundfile.write("melody.wav", sound, RATE)
outputs, _, notes = predict("melody.wav", model)
print(*(f"{name} {values.shape} {values.mean():.4f}" for name, values in sorted(outputs.items())))
print(*(f"{begin:.2f}-{end:.2f}: {pitch}" for begin, end, pitch, *_ in sorted(notes, key=lambda note: note[:3])))
