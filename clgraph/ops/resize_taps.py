"""The taps of an interpolated axis: which input elements, with which weights, every output element is made of."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache, partial
from math import ceil, floor

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array
from clgraph.selector.general import bits

Taps = tuple[tuple[tuple[int, float], ...], ...]
"""For every output coordinate of an axis, the input coordinates it is made of with their weights."""


@frozen
class Interpolation:
    """How one axis is interpolated, to *out* elements; as :class:`clgraph.ops.resize.Resize` has it, of this axis."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude_outside: bool
    antialias: bool
    out: int
    scale: float
    roi: tuple[float, ...] = ()


def tap_values(taps: Taps, dtype: DType = DType.F32) -> tuple[int, list[int]]:
    """Return the most taps of an element, and that many places with the bits of weights for each, weight 0 last.

    Args:
        dtype: Of the weights; those of F64 are two numbers.
    """
    most = max(map(len, taps), default=0)
    filled = [tap for row in taps for tap in (*row, *[(0, 0.0)] * (most - len(row)))]
    if dtype == DType.F64:
        return most, [v for at, weight in filled for v in (at, *struct.unpack("<2i", struct.pack("<d", weight)))]
    return most, [v for at, weight in filled for v in (at, bits(weight))]


def weighted(x: Array, taps: Taps) -> Array:
    """Return for each of *taps* the weighted sum of elements of axis 0: one of weight 0 counts nothing, NaN or not."""
    found = np.zeros((len(taps), *x.shape[1:]), x.dtype)
    for place in range(max(map(len, taps), default=0)):
        rows = [row for row, tap in enumerate(taps) if len(tap) > place and tap[place][1] != 0]
        weights = np.array([taps[row][place][1] for row in rows], x.dtype).reshape(-1, *[1] * (x.ndim - 1))
        found[rows] += x[[taps[row][place][0] for row in rows]] * weights
    return found


@lru_cache(maxsize=256)
def taps_of(one: Interpolation, size: int) -> Taps:
    """Return the taps along an axis of *size* elements."""
    out, scale = one.out, one.scale
    if one.coordinates == "tf_crop_and_resize":
        start, end = one.roi
        step = (end - start) * (size - 1) / (out - 1) if out > 1 else 0.0
        first = start * (size - 1) if out > 1 else 0.5 * (start + end) * (size - 1)
        places = [first + i * step for i in range(out)]
        return tuple(_tap(one, at, size) if 0 <= at <= size - 1 else ((0, 0.0),) for at in places)
    return tuple(_tap(one, _coordinate(one.coordinates, i, scale, size, out), size) for i in range(out))


def _coordinate(rule: str, i: int, scale: float, size: int, out: int) -> float:
    """Return where output element *i* lies in x, in the float32 steps of ONNX Runtime, so that ties fall alike."""
    if scale == 1 and size == out:
        return float(i)
    half, at, factor = np.float32(0.5), np.float32(i), np.float32(scale)
    match rule:
        case "half_pixel":
            return float((at + half) / factor - half)
        case "pytorch_half_pixel":
            return float((at + half) / factor - half) if out > 1 else 0.0
        case "half_pixel_symmetric":
            adjusted = np.float32(out) / (factor * np.float32(size))
            offset = np.float32(size) * half * (np.float32(1) - adjusted)
            return float(offset + (at + half) / factor - half)
        case "align_corners":
            return float(at * np.float32(size - 1) / np.float32(out - 1)) if out > 1 else 0.0
        case "tf_half_pixel_for_nn":
            return float((at + half) / factor)
        case "asymmetric":
            return float(at / factor)
    raise ShapeError(f"coordinates {rule!r} are not computed")


def _tap(one: Interpolation, at: float, size: int) -> tuple[tuple[int, float], ...]:
    if one.mode == "nearest":
        return ((min(max(_nearest(nearest_rule(one.nearest, (one.scale,)), at), 0), size - 1), 1.0),)
    low = floor(at)
    part = at - low
    stretch = min(one.scale, 1.0) if one.antialias else 1.0
    reach, weigh = (1, _linear) if one.mode == "linear" else (2, partial(_cubic, one.cubic))
    first = floor(-reach / stretch) + 1
    found = [(low + i, weigh(abs(i - part) * stretch)) for i in range(first, 2 - first)]
    if one.antialias:
        found = _normalised(found)
    if one.exclude_outside:
        found = _normalised([(i, w) for i, w in found if 0 <= i < size])
    merged: dict[int, float] = {}
    for i, weight in found:
        place = min(max(i, 0), size - 1)
        merged[place] = merged.get(place, 0.0) + weight
    return tuple(merged.items())


def _normalised(taps: list[tuple[int, float]]) -> list[tuple[int, float]]:
    if not (total := sum(w for _, w in taps)) and taps:
        raise ShapeError(f"the weights {[w for _, w in taps]} of a pixel add up to 0, by which they are divided")
    return [(i, w / total) for i, w in taps]


def _linear(d: float) -> float:
    return max(1 - d, 0.0)


def _cubic(a: float, d: float) -> float:
    """Return the weight of a tap at distance *d* (Keys, Cubic convolution interpolation, 1981, equation 4)."""
    if d >= 2:
        return 0.0
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def nearest_rule(rule: str, scales: Sequence[float]) -> str:
    """Return what ``simple`` means where *scales* go one way: down to the element behind a place, up before it."""
    if rule != "simple" or min(scales, default=1.0) < 1 < max(scales, default=1.0):
        return rule
    return "ceil" if min(scales, default=1.0) < 1 else "floor"


_TIE = 1e-6
"""How far from the middle of two elements a place is as near to one as to the other: ONNX Runtime has it so since 1.32,
because places are rounded."""


def _nearest(rule: str, at: float) -> int:
    match rule:
        case "round_prefer_floor":
            return ceil(at - 0.5 - _TIE)
        case "round_prefer_ceil":
            return floor(at + 0.5 + _TIE)
        case "floor":
            return floor(at)
        case "ceil":
            return ceil(at)
    raise ShapeError(f"nearest_mode {rule!r} is not one of round_prefer_floor, round_prefer_ceil, floor, ceil")
