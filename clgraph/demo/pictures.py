"""Pictures: opened from files of any kind, drawn from text, and with the lines that were found in them."""

from __future__ import annotations

import os
import struct
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps, UnidentifiedImageError

from clgraph.demo.ocr import Line
from clgraph.errors import InputError

_FONT_SIZE, _MARGIN = 32, 10

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def open_picture(path: str | os.PathLike[str]) -> Image.Image:
    """Return the picture in a file in RGB: upright as its EXIF data say, 16 bits scaled to 8, white where transparent.

    Raises:
        InputError: There is none that can be read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path) as picture:
                return _in_rgb(ImageOps.exif_transpose(picture))
    except FileNotFoundError as error:
        raise InputError(f"there is no file {Path(path)}") from error
    except IsADirectoryError as error:
        raise InputError(f"{Path(path)} is a folder, not a picture") from error
    except UnidentifiedImageError as error:
        raise InputError(f"{Path(path)} is not a picture that can be read") from error
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError) as error:
        raise InputError(f"{Path(path)} is not a picture that can be read: {error}") from error


def _in_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I;16") or picture.mode in ("I", "F"):
        values = np.nan_to_num(np.asarray(picture, np.float64))
        least, most = (0.0, 65535.0) if picture.mode != "F" and values.max() > 255 else (values.min(), values.max())
        if picture.mode != "F" and values.max() <= 255:
            least, most = 0.0, 255.0
        grey = (values - least) * (255 / ((most - least) or 1))
        return Image.fromarray(grey.clip(0, 255).round().astype(np.uint8)).convert("RGB")
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    drawn = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", drawn.size, "white"), drawn).convert("RGB")


def draw_text(text: str, font: str | os.PathLike[str] | None = None) -> Image.Image:
    """Return *text* in black on white, on one line, in Pillow's own font or in the font file given.

    Raises:
        InputError: There is nothing to draw, more than a line, or a character that the font lacks; or *font* is no
            font file.
    """
    if not text.strip():
        raise InputError("there is no text to draw")
    if len(text.splitlines()) > 1:
        raise InputError("the text has more than one line; give one")
    try:
        face: Font = ImageFont.load_default(_FONT_SIZE) if font is None else ImageFont.truetype(str(font), _FONT_SIZE)
    except OSError as error:
        raise InputError(f"{font} is not a font file that can be read: {error}") from error
    if lacking := [c for c in text if not c.isspace() and _is_missing(face, c)]:
        raise InputError(f"the font has no {lacking[0]!r}; give one that has it: --font FILE")
    left, top, right, bottom = face.getbbox(text)
    size = (round(right - left) + 2 * _MARGIN, round(bottom - top) + 2 * _MARGIN)
    picture = Image.new("RGB", size, "white")
    ImageDraw.Draw(picture).text((_MARGIN - left, _MARGIN - top), text, fill="black", font=face)
    return picture


def _is_missing(face: Font, character: str) -> bool:
    """Say whether *face* draws what it draws for a code point that is no character."""
    return bytes(face.getmask(character)) == bytes(face.getmask("\U0010ffff"))


SAMPLE = (
    "One page, three networks",
    ("The first network finds", "lines of text wherever", "they are on the page."),
    ("The second one turns", "what stands on its head,", "and the third one reads."),
    "This line climbs a hill",
    "and this one is upside down",
)
"""The text of :func:`sample_page`: a title, two columns, a line at an angle and one on its head."""


def sample_page() -> Image.Image:
    """Return a page with the lines of :data:`SAMPLE`, drawn in Pillow's own font."""
    title, *columns, climbing, turned = SAMPLE
    page = Image.new("RGB", (1000, 720), (250, 248, 240))
    draw = ImageDraw.Draw(page)
    draw.text((70, 40), str(title), fill=(20, 40, 110), font=ImageFont.load_default(52))
    for column, left in zip(columns, (70, 540), strict=True):
        for i, text in enumerate(column):
            draw.text((left, 150 + 52 * i), text, fill="black", font=ImageFont.load_default(30))
    _paste_turned(page, str(climbing), 12, (300, 350))
    _paste_turned(page, str(turned), 180, (300, 610))
    return page


def _paste_turned(page: Image.Image, text: str, degrees: float, place: tuple[int, int]) -> None:
    """Put *text*, turned counter-clockwise, on *page* with its upper left corner at *place*."""
    ink = ImageOps.invert(draw_text(text).convert("L")).rotate(degrees, Image.Resampling.BICUBIC, expand=True)
    page.paste((120, 20, 20), place, ink)


def draw_lines(picture: Image.Image, lines: Sequence[Line]) -> Image.Image:
    """Return *picture* with a box around every line, and its number."""
    drawn = picture.copy()
    draw = ImageDraw.Draw(drawn)
    stroke = max(2, round(max(picture.size) / 600))
    font = ImageFont.load_default(max(12, 7 * stroke))
    for i, line in enumerate(lines, 1):
        draw.polygon(line.corners, outline=(220, 30, 30), width=stroke)
        x, y = line.corners[0]
        box = draw.textbbox((x, y), str(i), font=font, anchor="lb")
        draw.rectangle(box, fill=(220, 30, 30))
        draw.text((x, y), str(i), fill="white", font=font, anchor="lb")
    return drawn
