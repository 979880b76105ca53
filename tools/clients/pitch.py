# needs: --no-deps: swift-f0
"""Follow the pitch of a sound, of a whole and of a stream of blocks, on one thread and on two."""

import numpy as np
from swift_f0 import SwiftF0

rate = 16000
time = np.arange(rate * 3) / rate
phase = 2 * np.pi * np.cumsum(180 + 60 * np.sin(2 * time)) / rate
sound = sum(np.sin(k * phase) / k for k in range(1, 6)).astype(np.float32) * 0.2
sound[rate : rate + 4000] = 0.001 * np.random.default_rng(0).standard_normal(4000)
for threads in (1, 2):
    found = SwiftF0(threads=threads).detect(sound, rate)
    print(*(f"{x:.2f}" for x in found.pitch_hz[::9]))
    print(*(f"{x:.3f}" for x in found.confidence[::9]))
stream = SwiftF0(threads=1, spin=False).stream()
for block in np.split(sound, 30):
    print(*(f"{x:.2f}" for x in stream.push(block, rate).pitch_hz[::4]))
print(*(f"{x:.2f}" for x in stream.flush().pitch_hz[::4]))
