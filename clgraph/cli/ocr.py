"""Text recognition with PP-OCR's model: drawing text, preparing a picture, reading the network's answer."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, UnidentifiedImageError

from clgraph.errors import InputError

HEIGHT = 48
"""Rows the model reads."""

LEAST_WIDTH = 320
"""Columns a picture is filled up to, as in the model's training."""

_FONT_SIZE, _MARGIN = 32, 10


def draw_text(text: str, font: str | os.PathLike[str] | None = None) -> Image.Image:
    """Return *text* in black on white, on one line, in Pillow's own font or in the font file given.

    Raises:
        InputError: There is nothing to draw, more than a line, or a character that the font lacks; or *font* is no
            font file.
    """
    if not text.strip():
        raise InputError("there is no text to draw")
    if len(text.splitlines()) > 1:
        raise InputError("the text has more than one line; the network reads one")
    try:
        face = ImageFont.load_default(_FONT_SIZE) if font is None else ImageFont.truetype(str(font), _FONT_SIZE)
    except OSError as error:
        raise InputError(f"{font} is no font file that can be read: {error}") from error
    if lacking := [c for c in text if not c.isspace() and _is_missing(face, c)]:
        raise InputError(f"the font has no {lacking[0]!r}; give one that has it: --font FILE")
    left, top, right, bottom = face.getbbox(text)
    size = (round(right - left) + 2 * _MARGIN, round(bottom - top) + 2 * _MARGIN)
    picture = Image.new("RGB", size, "white")
    ImageDraw.Draw(picture).text((_MARGIN - left, _MARGIN - top), text, fill="black", font=face)
    return picture


def _is_missing(face: ImageFont.FreeTypeFont | ImageFont.ImageFont, character: str) -> bool:
    """Say whether *face* draws what it draws for a code point that is no character."""
    return bytes(face.getmask(character)) == bytes(face.getmask("\U0010ffff"))


def open_picture(path: str | os.PathLike[str]) -> Image.Image:
    """Return the picture in a file, on white where it is transparent.

    Raises:
        InputError: There is none that can be read.
    """
    try:
        with Image.open(path) as picture:
            if not picture.has_transparency_data:
                return picture.convert("RGB")
            drawn = picture.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", drawn.size, "white"), drawn).convert("RGB")
    except FileNotFoundError as error:
        raise InputError(f"there is no file {Path(path)}") from error
    except (UnidentifiedImageError, OSError) as error:
        raise InputError(f"{Path(path)} is no picture that can be read: {error}") from error


def prepare(picture: Image.Image) -> NDArray[np.float32]:
    """Return the network's input [1][3][48][width]: scaled to 48 rows, in BGR, from -1 to 1, filled up with zeros."""
    width = max(1, round(picture.width * HEIGHT / picture.height))
    scaled = picture.convert("RGB").resize((width, HEIGHT), Image.Resampling.BILINEAR)
    pixels = np.asarray(scaled, np.float32)[:, :, ::-1].transpose(2, 0, 1)
    filled = np.zeros((1, 3, HEIGHT, max(width, LEAST_WIDTH)), np.float32)
    filled[0, :, :, :width] = (pixels / 255 - 0.5) / 0.5
    return filled


def characters_of(metadata: str) -> list[str]:
    """Return what each class means: the CTC blank, the characters of the model's metadata, a space."""
    return ["", *metadata.splitlines(), " "]


def decode(probabilities: NDArray[np.float32], characters: list[str]) -> tuple[str, float]:
    """Return the text that the likeliest class of every column spells, and the mean probability of its characters.

    Greedy CTC decoding (Graves et al., 2006): runs of one class count once, blanks not at all.

    Args:
        probabilities: [columns][classes].

    Raises:
        InputError: The classes are not those of *characters*.
    """
    if probabilities.shape[-1] != len(characters):
        raise InputError(f"the model tells {probabilities.shape[-1]} classes apart, not {len(characters)}")
    classes = probabilities.argmax(-1)
    kept = np.flatnonzero((classes != 0) & (np.diff(classes, prepend=-1) != 0))
    text = "".join(characters[c] for c in classes[kept])
    return text, float(probabilities[kept, classes[kept]].mean()) if len(kept) else 0.0
