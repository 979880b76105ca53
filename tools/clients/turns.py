# needs: pipecat-ai
"""Tell when who speaks has finished: a quantised Whisper encoder, and the LSTM of one step that hears speech."""

import numpy as np
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroVADAnalyzer

RATE = 16000

time = np.arange(RATE * 2) / RATE
beats = np.sin(2 * np.pi * 3 * time) > 0
tones = beats * (0.4 * np.sin(2 * np.pi * 180 * time) + 0.2 * np.sin(2 * np.pi * 540 * time))
sound = (tones + 0.02 * np.random.default_rng(0).standard_normal(time.size)).astype(np.float32)
vad = SileroVADAnalyzer(sample_rate=RATE)
vad.set_sample_rate(RATE)
pieces = (20000 * sound).astype(np.int16)[: 62 * 512].reshape(62, 512)
print(*(f"{float(np.ravel(vad.voice_confidence(piece.tobytes()))[0]):.3f}" for piece in pieces[::4]))
turns = LocalSmartTurnAnalyzerV3()
for length in (RATE, 2 * RATE):
    found = turns._predict_endpoint(sound[:length])
    # The last bits of the sound decide roundings to 8 bits, and those its second digit, with ONNX Runtime alone, too.
    print(found["prediction"], f"{float(found['probability']):.1f}")
