# needs: ddddocr
"""Read a captcha, and find the words of a picture: a quantised recurrent network, and a detector."""

import io

from ddddocr import DdddOcr
from PIL import Image, ImageDraw, ImageFont


def picture(text: str, size: tuple[int, int]) -> bytes:
    """Return a PNG of *text*."""
    made, file = Image.new("RGB", size, "white"), io.BytesIO()
    ImageDraw.Draw(made).text((12, 12), text, fill=(30, 60, 120), font=ImageFont.load_default(36))
    made.save(file, "PNG")
    return file.getvalue()


print(DdddOcr(show_ad=False).classification(picture("k7Xw9", (160, 64))))
print(DdddOcr(det=True, ocr=False, show_ad=False).detection(picture("two words", (320, 64))))
