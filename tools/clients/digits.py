# needs: --no-deps: vietcombank-captcha
"""Read captchas of five digits: a convolutional network with five heads."""

from PIL import Image, ImageDraw, ImageFont
from vietcombank_captcha import VietcombankCaptcha

predictor = VietcombankCaptcha()
font = ImageFont.load_default(32)
for digits in ("48213", "90765", "11234"):
    image = Image.new("RGB", (155, 50), (240, 240, 240))
    ImageDraw.Draw(image).text((20, 8), digits, fill=(30, 60, 20), font=font)
    image.save("digits.png")
    print(predictor.predict_with_confidence("digits.png"))
