# needs: opencv-python-headless --no-deps: trueocr
"""Read a page in Vietnamese: how it is turned, its lines, their text and order; four small networks."""

from PIL import Image, ImageDraw, ImageFont
from trueocr import load_model

LINES = ("Cong hoa xa hoi", "Doc lap - Tu do - Hanh phuc", "", "So: 123/QD-2024", "Ha Noi, 4.5.2024", "", "The end.")

page = Image.new("RGB", (900, 700), "white")
for number, line in enumerate(LINES):
    ImageDraw.Draw(page).text((80, 60 + 70 * number), line, fill=(20, 20, 20), font=ImageFont.load_default(38))
reader = load_model(save_outputs=False)
for picture in (page, page.rotate(90, expand=True), page.rotate(4, expand=True, fillcolor="white")):
    found = reader.predict(picture)
    print(found.data["rotation_clockwise_degrees"], f"{found.data['skew_degrees']:.2f}")
    print(*(f"{line['text']} {line['bbox']} {line['confidence']:.4f}" for line in found.lines), sep="\n")
