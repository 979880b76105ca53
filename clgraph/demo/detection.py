"""Lines of text in a page, out of the map that PP-OCR's detection network makes.

Differentiable binarization (Liao et al., 2020): the network tells for each pixel how likely it is the *core* of a line,
shrunk from its outline; each core is surrounded by its smallest rectangle, which is grown to the outline again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from clgraph.demo.rectangles import Points, connected, mean_inside, smallest_rectangle
from clgraph.ops.preprocess import Preprocess

STRIDE = 32
"""Rows and columns that the network reads are multiples of it."""

LEAST_SIDE = 736
"""A small picture is enlarged until its shorter side has so many pixels."""

LONGEST_SIDE = 2000
"""Pixels of the longer side that the network reads at once; larger pictures are scaled down to them."""

_LONG = 3
_OVERLAP = 256
_LINE, _LINE_SCALE, _PAGE_SCALE, _ENLARGED = 2, 2.0, 4.0, 1280
_CORE, _BOX = 0.3, 0.5
_GROWTH = 2.0
_THINNEST = 3
_MOST_LINES = 1000

Network = Callable[..., NDArray[np.float32]]
"""A network of one output, e.g. a :class:`clgraph.Model`, which takes one array, or an image and its size."""

IMAGES = Preprocess(channels="BGR", size="fed", mean=127.5, scale=127.5)
"""What :func:`scaled` does, for networks that are fed pictures as they are."""


def likely_cores(
    detect: Network, picture: Image.Image, longest: int = LONGEST_SIDE, *, images: bool = False
) -> NDArray[np.float32]:
    """Return how likely each pixel of a scaled *picture* is in a line's core: [rows][columns], from 0 to 1.

    A picture that is more than three times as long as it is wide is read in pieces that overlap, all of one size.

    Args:
        images: Whether *detect* was compiled with :data:`IMAGES`, and is fed bytes and the size that they become.
    """
    size = scaled_size(picture, longest)
    axis, cores = int(np.argmax(size)), np.zeros(size, np.float32)
    whole = size[axis]
    piece = min(whole, max(STRIDE, longest // STRIDE * STRIDE))
    if images and piece == whole:
        cores[...] = detect(np.asarray(picture.convert("RGB")), np.array(size))[0, 0]
        return cores
    pixels = np.asarray(_resized(picture, size)) if images else scaled(picture, longest)
    overlap = min(_OVERLAP, piece // 2)
    count = 1 + math.ceil((whole - piece) / (piece - overlap))
    for start in np.linspace(0, whole - piece, count).astype(int):
        part: list[slice] = [slice(None)] * 2
        part[axis] = slice(start, start + piece)
        if images:
            cut = np.ascontiguousarray(pixels[tuple(part)])
            found = detect(cut, np.array(cut.shape[:2]))[0, 0]
        else:
            found = detect(np.ascontiguousarray(pixels[:, :, part[0], part[1]]))[0, 0]
        place = cores[tuple(part)]
        np.maximum(place, found, out=place)
    return cores


def scaled_size(picture: Image.Image, longest: int = LONGEST_SIDE) -> tuple[int, int]:
    """Return the rows and columns that the network reads *picture* in, multiples of 32.

    Small pictures are enlarged, those of a page more than those of a line, which the network does not find when it is
    much higher than lines in its training.
    """
    shorter, longer = min(picture.size), max(picture.size)
    most = max(_LINE_SCALE if longer > _LINE * shorter else _PAGE_SCALE, STRIDE / shorter)
    scale = max(1.0, min(LEAST_SIDE / shorter, _ENLARGED / longer, most))
    scale = min(scale, longest / min(longer, _LONG * shorter))
    columns, rows = (max(STRIDE, round(side * scale / STRIDE) * STRIDE) for side in picture.size)
    return rows, columns


def scaled(picture: Image.Image, longest: int = LONGEST_SIDE) -> NDArray[np.float32]:
    """Return *picture* as the network reads it: [1][3][rows][columns], multiples of 32, in BGR, from -1 to 1."""
    pixels = np.asarray(_resized(picture, scaled_size(picture, longest)), np.float32)
    return np.ascontiguousarray(pixels[:, :, ::-1].transpose(2, 0, 1)[None] / 127.5 - 1)


def _resized(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    return picture.convert("RGB").resize((size[1], size[0]), Image.Resampling.BILINEAR)


def find_lines(cores: NDArray[np.float32], width: int, height: int) -> list[Points]:
    """Return the corners [4][2] of every line, in the pixels of the picture of *width* and *height*.

    Args:
        cores: The network's result [rows][columns], from 0 to 1.
    """
    scale = np.array([width / cores.shape[1], height / cores.shape[0]])
    parts = sorted(connected(cores > _CORE), key=len, reverse=True)[:_MOST_LINES]
    found = []
    for points in parts:
        core = smallest_rectangle(points)
        if min(core.width, core.height) < _THINNEST or mean_inside(cores, core) < _BOX:
            continue
        distance = core.width * core.height * _GROWTH / (2 * (core.width + core.height))
        corners = core.grown(distance).corners() * scale
        found.append(corners.clip(0, (width, height)))
    return [corners for corners in found if min(side_lengths(corners)) >= 2]


def side_lengths(corners: Points) -> tuple[float, float]:
    """Return the lengths of the upper or lower, and of the left or right side, the longer of each."""
    upper, right, lower, left = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
    return max(upper, lower), max(left, right)


def reading_order(lines: list[Points]) -> list[int]:
    """Return the indices of *lines* in the order in which a page of columns is read.

    Recursive X-Y cuts (Nagy and Seth, 1984): columns where a gap as wide as a line is high parts them, else the rows
    above and below the largest gap.
    """
    if not lines:
        return []
    boxes = np.array([[*corners.min(0), *corners.max(0)] for corners in lines])
    gap = float(np.median([min(side_lengths(corners)) for corners in lines]))
    return _cut(boxes, list(range(len(lines))), gap)


def _cut(boxes: NDArray[np.float64], indices: list[int], least: float) -> list[int]:
    if len(indices) < 2:
        return indices
    gap, columns = _widest_gap(boxes, indices, 0)
    if not (gap > least and min(map(len, columns)) > 1):
        gap, columns = _widest_gap(boxes, indices, 1)
        if gap <= -least / 2:
            return sorted(indices, key=lambda i: float(boxes[i, 0]))
    return [i for part in columns for i in _cut(boxes, part, least)]


def _widest_gap(boxes: NDArray[np.float64], indices: list[int], axis: int) -> tuple[float, tuple[list[int], list[int]]]:
    """Return the widest gap along *axis* (negative: the least overlap) and what is before and behind it."""
    ordered = sorted(indices, key=lambda i: float(boxes[i, axis]))
    reach = np.maximum.accumulate(boxes[ordered, axis + 2])[:-1]
    gaps = boxes[ordered, axis][1:] - reach
    at = int(np.argmax(gaps)) + 1
    return float(gaps[at - 1]), (ordered[:at], ordered[at:])
