# needs: rapidocr
"""Read a page with the successor of rapidocr-onnxruntime: the networks of PP-OCR v6, boxes of lines and of words."""

from PIL import Image, ImageDraw, ImageFont
from rapidocr import RapidOCR

LINES = ("Hello world 2026", "The quick brown fox", "pi is 3.14159, e is 2.71828")

page = Image.new("RGB", (640, 240), "white")
for number, line in enumerate(LINES):
    ImageDraw.Draw(page).text((30, 30 + number * 70), line, fill="black", font=ImageFont.load_default(32))
page.save("lines.png")
found = RapidOCR()("lines.png", return_word_box=True)
for text, score, box in zip(found.txts, found.scores, found.boxes, strict=True):
    print(f"{text} ({float(score):.3f})", box.round().astype(int).tolist())
print(sum(len(words) for words in found.word_results))
