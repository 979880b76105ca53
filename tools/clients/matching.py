# needs: opencv-python-headless --no-deps: CapSpot
"""Find the pictures of a hint in a background: a detector, and a network that compares two pictures."""

import io

import numpy as np
from CapSpot.image_matcher import ImageMatcher
from PIL import Image, ImageDraw, ImageFont


def drawn(letters: str, size: tuple[int, int], places: list[tuple[int, int]], seed: int, height: int) -> bytes:
    """Return a PNG of *letters* at *places*."""
    noise = np.random.default_rng(seed).integers(120, 200, (size[1] // 8, size[0] // 8, 3)).astype(np.uint8)
    picture, file = Image.fromarray(noise).resize(size), io.BytesIO()
    for letter, place in zip(letters, places, strict=True):
        ImageDraw.Draw(picture).text(place, letter, fill=(20, 20, 90), font=ImageFont.load_default(height))
    picture.save(file, "PNG")
    return file.getvalue()


hint = drawn("RAK", (150, 50), [(5, 2), (55, 2), (105, 2)], 1, 40)
scene = drawn("KRXA", (344, 344), [(40, 60), (200, 40), (240, 220), (70, 230)], 2, 64)
matcher = ImageMatcher()
print(matcher.det_model.get_bbox(hint), matcher.det_model.get_bbox(scene))
print(matcher.match_images(hint, scene))
pictures = [Image.open(io.BytesIO(data)) for data in (hint, scene)]
print(*(f"{matcher.onnx_model.detect_image(pictures[0], picture)[0, 0]:.4f}" for picture in pictures))
