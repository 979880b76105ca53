"""Text of pictures of one line, and which way up they are, by PP-OCR's recognition and direction networks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from clgraph.demo.detection import side_lengths
from clgraph.demo.rectangles import Points
from clgraph.errors import InputError

HEIGHT = 48
"""Rows the networks read."""

LEAST_WIDTH, WIDEST = 320, 4800
"""Columns that the recognition's input has at least, as in its training, and at most."""

DIRECTION_WIDTH = 192
"""Columns that the direction network reads."""

BATCH = 8
"""Most lines in one batch."""

_WIDTH_STEP = 32
_UPRIGHT = 1.5
_TURNED = 0.9


def crop(picture: Image.Image, corners: Points) -> Image.Image:
    """Return the line between *corners* [4][2] as a level picture; one that is higher than wide is laid on its side."""
    width, height = (max(1, round(side)) for side in side_lengths(corners))
    level = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64)
    size = (width, height)
    cut = picture.transform(size, Image.Transform.PERSPECTIVE, _perspective(level, corners), Image.Resampling.BICUBIC)
    return cut.transpose(Image.Transpose.ROTATE_90) if height >= _UPRIGHT * width else cut


def _perspective(source: Points, target: Points) -> list[float]:
    """Return the eight coefficients that take *source* to *target*: (ax + by + c) / (gx + hy + 1) and so on."""
    rows, right = [], []
    for (x, y), (u, v) in zip(source, target, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        right += [u, v]
    found: list[float] = np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0].tolist()
    return found


def prepare(picture: Image.Image, columns: int | None = None) -> NDArray[np.float32]:
    """Return a network's input [1][3][48][columns]: scaled to 48 rows, in BGR, from -1 to 1, filled up with zeros.

    Args:
        columns: Squeezed to these where it is wider; as wide as it is, but 320 at least, by default.
    """
    width = max(1, min(round(picture.width * HEIGHT / picture.height), columns or WIDEST))
    scaled = picture.convert("RGB").resize((width, HEIGHT), Image.Resampling.BILINEAR)
    pixels = np.asarray(scaled, np.float32)[:, :, ::-1].transpose(2, 0, 1)
    filled = np.zeros((1, 3, HEIGHT, columns or max(width, LEAST_WIDTH)), np.float32)
    filled[0, :, :, :width] = (pixels / 255 - 0.5) / 0.5
    return filled


def batches(lines: Sequence[Image.Image], most: int = BATCH) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
    """Yield indices of *lines* and their input [n][3][48][columns], lines of like width together.

    Columns are multiples of 32, so that pages of one kind need few sizes.
    """
    widths = [max(LEAST_WIDTH, min(WIDEST, line.width * HEIGHT / line.height)) for line in lines]
    order = sorted(range(len(lines)), key=lambda i: (widths[i], i))
    for start in range(0, len(order), most):
        part = order[start : start + most]
        columns = math.ceil(max(widths[i] for i in part) / _WIDTH_STEP) * _WIDTH_STEP
        yield part, np.concatenate([prepare(lines[i], columns) for i in part])


def directions(lines: Sequence[Image.Image], most: int = BATCH) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
    """Yield indices of *lines* and the direction network's input [n][3][48][192]: the middle, of a line too long."""
    for start in range(0, len(lines), most):
        part = list(range(start, min(start + most, len(lines))))
        yield part, np.concatenate([prepare(_middle(lines[i]), DIRECTION_WIDTH) for i in part])


def _middle(line: Image.Image) -> Image.Image:
    beside = max(0, (line.width - line.height * DIRECTION_WIDTH // HEIGHT) // 2)
    return line.crop((beside, 0, line.width - beside, line.height))


def is_turned(probabilities: NDArray[np.float32]) -> bool:
    """Say whether a line stands on its head, from the probabilities of 0 and 180 degrees."""
    return bool(probabilities[1] > _TURNED)


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
