"""Taps of images along an axis: which pixels a pixel of the result is made of, as Pillow and as OpenCV take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clgraph.core.frozen import frozen
from clgraph.graph.primitive import Array

Floats = NDArray[np.float64]

RESIZES = ("nearest", "linear", "cubic", "area")
RULES = ("pillow", "opencv")

_CUBIC = {"pillow": -0.5, "opencv": -0.75}


@frozen
class ResizedAxis:
    """How an axis of an image is resized, and what part of that is the result.

    Attributes:
        size: Pixels of the image.
        resized: Pixels that they become.
        start: The first of those in the result; negative where padding comes before it.
        shape: Pixels of the result.
    """

    size: int
    resized: int
    start: int
    shape: int


def taps(axis: ResizedAxis, resize: str, rule: str, reduces: bool) -> tuple[Array, Array]:
    """Return the first pixel of each pixel of the result, int32 ``[shape]``, and weights, float32 ``[shape][taps]``.

    Weights of a pixel add up to 1, those of padding are 0. All pixels that are named lie in the image.

    Args:
        resize: One of ``RESIZES``.
        rule: One of ``RULES``: whose coordinates and borders.
        reduces: Whether the image becomes smaller along no axis larger, which decides what OpenCV takes for ``area``.
    """
    places = np.clip(np.arange(axis.shape) + axis.start, 0, axis.resized - 1)
    if axis.resized == axis.size:
        first, weights = places, np.ones((axis.shape, 1))
    elif rule == "pillow":
        first, weights = _pillow(places, axis, resize)
    else:
        first, weights = _opencv(places, axis, resize, reduces)
    outside = (np.arange(axis.shape) + axis.start != places)[:, None]
    return first.astype(np.int32), np.where(outside, 0, weights).astype(np.float32)


def packed(rows: tuple[Array, Array], columns: tuple[Array, Array]) -> Array:
    """Return taps of rows and columns as one vector, F32: how many each row and each column has, then all of them.

    Those of a row are its first pixel, which a float holds, and the weights. In one vector no size of theirs is equal
    to another by chance, as families of shapes would have to check.
    """
    counts = [weights.shape[1] for _, weights in (rows, columns)]
    parts = [np.column_stack(pair).ravel() for pair in (rows, columns)]
    return np.concatenate([np.array(counts), *parts]).astype(np.float32)


def unpacked(taps: Array, shape: tuple[int, int]) -> tuple[tuple[Array, Array], ...]:
    """Return what :func:`packed` was given for a result of *shape*."""
    found, start = list[tuple[Array, Array]](), 2
    for side, count in zip(shape, taps[:2].astype(int), strict=True):
        axis = taps[start : start + side * (count + 1)].reshape(side, count + 1)
        found.append((axis[:, 0].astype(np.int64), axis[:, 1:]))
        start += axis.size
    return tuple(found)


def _pillow(places: Array, axis: ResizedAxis, resize: str) -> tuple[Array, Floats]:
    """Return taps by ``precompute_coeffs`` of Pillow's Resample.c: kernels grow with the scale, and end at borders.

    The nearest are those of ``ImagingScaleAffine`` in its Geometry.c, which adds up the scale: ties fall as there.
    """
    size, scale = axis.size, axis.size / axis.resized
    if resize == "nearest":
        at = np.add.accumulate([scale * 0.5, *[scale] * (axis.resized - 1)])[places]
        return np.minimum(at, size - 1).astype(np.int64), np.ones((len(places), 1))
    kernel, reach = _KERNELS[resize]
    stretch = max(scale, 1.0)
    centre, support = (places + 0.5) * scale, reach * stretch
    first = np.maximum(np.floor(centre - support + 0.5), 0)
    end = np.minimum(np.floor(centre + support + 0.5), size)
    at = first[:, None] + np.arange(int((end - first).max()))
    weights = np.where(at < end[:, None], kernel((at - centre[:, None] + 0.5) / stretch), 0.0)
    return _inside(at, weights / weights.sum(1, keepdims=True), size)


def _opencv(places: Array, axis: ResizedAxis, resize: str, reduces: bool) -> tuple[Array, Floats]:
    """Return taps as ``cv::resize`` takes them: two or four beside the place, of which those outside are the border."""
    size, scale = axis.size, axis.size / axis.resized
    if resize == "nearest":
        return np.minimum(np.floor(places * scale), size - 1).astype(np.int64), np.ones((len(places), 1))
    if resize == "area" and reduces:
        return _shares(places, size, scale)
    if resize == "area":
        low = np.floor(places * scale)
        part = (places + 1) - (low + 1) / scale
        part = np.where(part <= 0, 0.0, part - np.floor(part))
    else:
        centre = (places + 0.5) * scale - 0.5
        low = np.floor(centre)
        part = centre - low
    if resize == "cubic":
        offsets = np.arange(-1, 3)
        return _inside(low[:, None] + offsets, _cubic(_CUBIC["opencv"], part[:, None] - offsets), size)
    return _inside(low[:, None] + np.arange(2), np.stack([1 - part, part], 1), size)


def _shares(places: Array, size: int, scale: float) -> tuple[Array, Floats]:
    """Return the shares that pixels have of what a pixel of the result covers."""
    low, high = places * scale, np.minimum((places + 1) * scale, size)
    at = np.floor(low)[:, None] + np.arange(int(np.ceil(scale)) + 1)
    covered = np.clip(np.minimum(at + 1, high[:, None]) - np.maximum(at, low[:, None]), 0, None)
    return _inside(at, covered / covered.sum(1, keepdims=True), size)


def _inside(at: Array, weights: Floats, size: int) -> tuple[Array, Floats]:
    """Return taps at *at* as a first pixel and neighbours: what lies outside of the image is its border."""
    at = np.clip(at, 0, size - 1).astype(np.int64)
    count = min(size, int((at.max(1) - at.min(1)).max(initial=0)) + 1)
    first = np.minimum(at.min(1), size - count)
    found = np.zeros((len(at), count))
    for tap in range(at.shape[1]):
        np.add.at(found, (np.arange(len(at)), np.minimum(at[:, tap] - first, count - 1)), weights[:, tap])
    return first, found


def _cubic(a: float, distance: Floats) -> Floats:
    """Return the weights at a *distance* (Keys, Cubic convolution interpolation, 1981, equation 4)."""
    d = np.abs(distance)
    near: Floats = ((a + 2) * d - (a + 3)) * d * d + 1
    far: Floats = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    found: Floats = np.where(d <= 1, near, np.where(d < 2, far, 0.0))
    return found


def _linear(distance: Floats) -> Floats:
    found: Floats = np.maximum(1 - np.abs(distance), 0)
    return found


def _box(distance: Floats) -> Floats:
    return ((distance > -0.5) & (distance <= 0.5)).astype(np.float64)


def _keys(distance: Floats) -> Floats:
    return _cubic(_CUBIC["pillow"], distance)


_KERNELS: dict[str, tuple[Callable[[Any], Floats], float]] = {
    "linear": (_linear, 1.0),
    "cubic": (_keys, 2.0),
    "area": (_box, 0.5),
}
"""Pillow's, each with its reach."""
