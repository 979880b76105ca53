# needs: --no-deps: onnx-asr
"""What onnx-asr makes of a sound for Whisper, NeMo, GigaAM, Kaldi and WeSpeaker, by FFT and by convolution."""

import importlib.resources

import numpy as np
import onnxruntime as rt

folder = importlib.resources.files("onnx_asr") / "preprocessors" / "data"
time = np.arange(9600) / 16000
sound = np.sin(2 * np.pi * (200 + 300 * time) * time)
noise = 0.01 * np.random.default_rng(0).standard_normal((2, len(time)))  # logarithms of silence are of rounding alone
sounds = (np.stack([0.3 * sound, 0.1 * sound**3]) + noise).astype(np.float32)
for name in ("whisper80", "whisper128", "nemo80", "nemo128", "gigaam_v2", "gigaam_v3", "kaldi", "wespeaker"):
    for way in ("", "_conv"):
        file = folder / f"{name}{way}.onnx"
        if not file.is_file():
            continue
        session = rt.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        names = [entry.name for entry in session.get_inputs()]
        features, lengths = session.run(None, dict(zip(names, (sounds, np.array([9600, 8000], np.int64)), strict=True)))
        print(file.name, features.shape, lengths.tolist(), f"{features.mean():.3f} {features.std():.3f}")
