"""The taps of an interpolated axis: which input elements, with which weights, every output element is made of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import floor
from typing import NamedTuple

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array


class Taps(NamedTuple):
    """Which elements of an axis every output element is made of.

    Attributes:
        places: ``[out][most]`` indices.
        weights: Of them, float64; 0 where an element has less than the most, behind the others.
    """

    places: Array
    weights: Array

    @property
    def picks(self) -> Array | None:
        """The element that each output element is; ``None`` where one is mixed, or none."""
        count, most = self.places.shape
        picked = (most == 1 or not count) and (self.weights == 1).all()
        return self.places.reshape(count) if picked else None


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
    count, most = taps.places.shape
    exact, words = (np.float64, 2) if dtype == DType.F64 else (np.float32, 1)
    weights = taps.weights.astype(exact).view(np.int32).reshape(count, most, words)
    return most, np.concatenate([taps.places.astype(np.int32)[..., None], weights], axis=2).ravel().tolist()


def weighted(x: Array, taps: Taps) -> Array:
    """Return for each of *taps* the weighted sum of elements of axis 0: one of weight 0 counts nothing, NaN or not."""
    found = np.zeros((len(taps.places), *x.shape[1:]), x.dtype)
    for places, weights in zip(taps.places.T, taps.weights.T, strict=True):
        rows = np.flatnonzero(weights)
        found[rows] += x[places[rows]] * weights[rows].astype(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
    return found


@lru_cache(maxsize=256)
def taps_of(one: Interpolation, size: int) -> Taps:
    """Return the taps along an axis of *size* elements."""
    at = _coordinates(one, size)
    places, weights = _nearest_taps(one, at, size) if one.mode == "nearest" else _mixed_taps(one, at, size)
    if one.coordinates == "tf_crop_and_resize":
        weights[(at < 0) | (at > size - 1)] = 0
    order = np.argsort(weights == 0, axis=1, kind="stable")
    most = int(np.count_nonzero(weights, axis=1).max(initial=0))
    places, weights = (np.take_along_axis(v, order, 1)[:, :most] for v in (places, weights))
    return Taps(np.where(weights == 0, 0, places), weights)


def _coordinates(one: Interpolation, size: int) -> Array:
    """Return where output elements lie in x, in the float32 steps of ONNX Runtime, so that ties fall alike."""
    out = one.out
    if one.coordinates == "tf_crop_and_resize":
        start, end = one.roi
        step = (end - start) * (size - 1) / (out - 1) if out > 1 else 0.0
        first = start * (size - 1) if out > 1 else 0.5 * (start + end) * (size - 1)
        return first + np.arange(out) * step
    if one.scale == 1 and size == out:
        return np.arange(out, dtype=np.float64)
    half, at, factor = np.float32(0.5), np.arange(out).astype(np.float32), np.float32(one.scale)
    alone = np.zeros(out)
    match one.coordinates:
        case "half_pixel":
            found = (at + half) / factor - half
        case "pytorch_half_pixel":
            found = (at + half) / factor - half if out > 1 else alone
        case "half_pixel_symmetric":
            adjusted = np.float32(out) / (factor * np.float32(size))
            offset = np.float32(size) * half * (np.float32(1) - adjusted)
            found = offset + (at + half) / factor - half
        case "align_corners":
            found = at * np.float32(size - 1) / np.float32(out - 1) if out > 1 else alone
        case "tf_half_pixel_for_nn":
            found = (at + half) / factor
        case "asymmetric":
            found = at / factor
        case rule:
            raise ShapeError(f"coordinates {rule!r} are not computed")
    return found.astype(np.float64)


def _nearest_taps(one: Interpolation, at: Array, size: int) -> tuple[Array, Array]:
    places = _nearest(nearest_rule(one.nearest, (one.scale,)), at).astype(np.int64).clip(0, size - 1)
    return places[:, None], np.ones((len(at), 1))


def _mixed_taps(one: Interpolation, at: Array, size: int) -> tuple[Array, Array]:
    """Return places and weights; those beyond an end of the axis count for the element there."""
    low = np.floor(at)
    stretch = min(one.scale, 1.0) if one.antialias else 1.0
    reach, weigh = (1, _linear) if one.mode == "linear" else (2, partial(_cubic, one.cubic))
    offsets = np.arange(floor(-reach / stretch) + 1, 1 - floor(-reach / stretch))
    places = low.astype(np.int64)[:, None] + offsets
    weights = weigh(np.abs(offsets - (at - low)[:, None]) * stretch)
    if one.antialias:
        weights = _normalised(weights, np.ones(weights.shape, bool))
    if one.exclude_outside:
        inside = (places >= 0) & (places < size)
        weights = _normalised(np.where(inside, weights, 0.0), inside)
    places = places.clip(0, size - 1)
    rows, first = np.arange(len(at)), np.zeros(len(at), np.int64)
    for tap in range(1, len(offsets)):
        # One at the place of another is added to it, in order.
        first = np.where(places[:, tap] == places[:, tap - 1], first, tap)
        same = first < tap
        weights[rows[same], first[same]] += weights[same, tap]
        weights[same, tap] = 0
    return places, weights


def _normalised(weights: Array, held: Array) -> Array:
    """Return *weights* divided by the sums of their rows, added up in order; rows without any that is *held* stay."""
    total: Array = sum(weights.T, np.zeros(len(weights)))
    none = (total == 0) & held.any(axis=1)
    if none.any():
        row = weights[none][0]
        raise ShapeError(f"the weights {row.tolist()} of a pixel add up to 0, by which they are divided")
    divided: Array = weights / np.where(total == 0, 1.0, total)[:, None]
    return divided


def _linear(d: Array) -> Array:
    weights: Array = np.maximum(1 - d, 0.0)
    return weights


def _cubic(a: float, d: Array) -> Array:
    """Return the weights of taps at distances *d* (Keys, Cubic convolution interpolation, 1981, equation 4)."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    weights: Array = np.where(d >= 2, 0.0, np.where(d <= 1, near, far))
    return weights


def nearest_rule(rule: str, scales: Sequence[float]) -> str:
    """Return the rule equal to ``simple``: ``ceil`` if *scales* shrink, ``floor`` if they grow, itself if both."""
    if rule != "simple" or min(scales, default=1.0) < 1 < max(scales, default=1.0):
        return rule
    return "ceil" if min(scales, default=1.0) < 1 else "floor"


_TIE = 1e-6
"""How far from the middle of two elements a place is as near to one as to the other: ONNX Runtime has it so since 1.32,
because places are rounded."""


def _nearest(rule: str, at: Array) -> Array:
    match rule:
        case "round_prefer_floor":
            return np.ceil(at - 0.5 - _TIE)
        case "round_prefer_ceil":
            return np.floor(at + 0.5 + _TIE)
        case "floor":
            return np.floor(at)
        case "ceil":
            return np.ceil(at)
    raise ShapeError(f"nearest_mode {rule!r} is not one of round_prefer_floor, round_prefer_ceil, floor, ceil")
