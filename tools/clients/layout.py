# needs: colorlog omegaconf opencv-python-headless requests tqdm --no-deps: rapid-layout
"""Find titles, paragraphs and figures of a page that is drawn here."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapid_layout import RapidLayout

page = Image.new("RGB", (620, 877), "white")
draw, font = ImageDraw.Draw(page), ImageFont.load_default(18)
draw.text((120, 40), "A Title of the Page", font=ImageFont.load_default(34), fill="black")
for line in range(14):
    draw.text((60, 120 + 22 * line), "Words of a paragraph that goes on for a line of text", font=font, fill="black")
draw.rectangle((100, 470, 500, 700), outline="black", fill="#88aacc")
draw.text((200, 710), "Figure 1. A picture", font=font, fill="black")
found = RapidLayout()(np.array(page))
for name, score, box in zip(found.class_names, found.scores, found.boxes, strict=True):
    print(name, f"{score:.3f}", [round(float(side)) for side in box])
