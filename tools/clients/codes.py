# needs: captcha-whisperer
"""Read captchas of four characters, with the confidence of each: a recurrent network over columns of a picture."""

import io

import captcha_whisperer
from PIL import Image, ImageDraw, ImageFont

for text in ("2CWK", "7XH4", "PQ9R"):
    made, file = Image.new("RGB", (160, 60), "white"), io.BytesIO()
    draw = ImageDraw.Draw(made)
    for i, letter in enumerate(text):
        draw.text((14 + 34 * i, 8 + 4 * (i % 2)), letter, fill=(20 * i, 60, 120), font=ImageFont.load_default(36))
    draw.line((0, 50, 160, 12), fill=(150, 150, 150), width=2)
    made.save(file, "PNG")
    found = captcha_whisperer.recognize(file.getvalue(), detailed=True)
    print(text, found["text"], f"{found['confidence']:.3f}", *(f"{c:.3f}" for c in found["char_confidences"]))
