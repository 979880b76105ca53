# needs: nudenet
"""Detect objects: a YOLO with its resizing and suppression in the graph or behind it."""

import numpy as np
from nudenet import NudeDetector

detector = NudeDetector()
pixels = np.random.default_rng(0).integers(0, 255, (320, 320, 3), np.uint8)
print(detector.detect(pixels))
image = pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255
(boxes,) = detector.onnx_session.run(None, {detector.input_name: image})
print(boxes.shape, *(f"{x:.3f}" for x in boxes.mean(axis=(0, 2))))
