# needs: opencv-python-headless shapely --no-deps: captcha-recognizer
"""Find where the piece of a sliding captcha belongs: a segmenting detector."""

import cv2
import numpy as np
from captcha_recognizer.slider import Slider

rng = np.random.default_rng(0)
picture = cv2.GaussianBlur(rng.integers(0, 255, (160, 320, 3), np.uint8), (31, 31), 9)
picture = cv2.normalize(picture, None, 0, 255, cv2.NORM_MINMAX)
cv2.rectangle(picture, (200, 60), (245, 105), (40, 40, 40), -1)
cv2.circle(picture, (222, 60), 9, (40, 40, 40), -1)
slider = Slider()
for conf in (0.5, 0.1, 0.02):
    box, score = slider.identify(source=picture, conf=conf)
    print(conf, [round(float(x), 1) for x in box], f"{score:.4f}")
    offset, score = slider.identify_offset(source=picture, conf=conf)
    print(conf, f"{float(offset):.2f} {float(score):.4f}")
