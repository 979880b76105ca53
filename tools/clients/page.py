# needs: rapidocr-onnxruntime
"""Read a page of five lines: three networks, shapes that change from line to line."""

from PIL import Image, ImageDraw, ImageFont
from rapidocr_onnxruntime import RapidOCR

LINES = (
    "The quick brown fox jumps over",
    "the lazy dog. 0123456789",
    "Invoice No. 2026-1122: total 318.40 EUR",
    "OpenCL runs on any device",
    "clgraph reads this page",
)

page = Image.new("RGB", (900, 420), "white")
for number, line in enumerate(LINES):
    ImageDraw.Draw(page).text((40, 40 + number * 70), line, fill="black", font=ImageFont.load_default(28))
page.save("page.png")
for _, text, score in RapidOCR()("page.png")[0]:
    print(f"{text} ({float(score):.3f})")
