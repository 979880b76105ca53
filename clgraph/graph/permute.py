"""Orders of axes: what a transpose does.

A tensor v is *held in the order* p as a tensor h when ``v = transpose(h, p)``: axis i of v is axis ``p[i]`` of h.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

Axes = tuple[int, ...]
T = TypeVar("T")


@lru_cache(maxsize=4096)
def compose(first: Axes, then: Axes) -> Axes:
    """Return the one transpose that is *first* and *then*; of a tensor held in *first*, the order of its transpose."""
    return tuple(first[axis] for axis in then)


@lru_cache(maxsize=1024)
def inverse(axes: Axes) -> Axes:
    """Return the transpose that takes *axes* back."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def identity(rank: int) -> Axes:
    """Return the order in which every axis is where it is."""
    return tuple(range(rank))


def held(per_axis: Sequence[T], axes: Axes) -> tuple[T, ...]:
    """Return sizes, pads or the like of each axis of a tensor in the order *axes*, in which its axes are stored."""
    return tuple(per_axis[axis] for axis in inverse(axes))


def between(made: Axes, wanted: Axes) -> Axes:
    """Return the transpose of a tensor that is held in the order *made*, to have it in the order *wanted*."""
    return compose(made, inverse(wanted))


def moves_data(shape: Sequence[int], axes: Axes) -> bool:
    """Whether transposing a tensor of *shape* by *axes* does more than move axes of size 1."""
    kept = [axis for axis in axes if shape[axis] != 1]
    return kept != sorted(kept) and 0 not in shape


def without(axes: Axes, dropped: Sequence[int]) -> Axes:
    """Return the order of the remaining axes after the axes *dropped*, of size 1 or reduced, are removed."""
    left = [axes[a] for a in range(len(axes)) if a not in dropped]
    rank = sorted(left)
    return tuple(rank.index(axis) for axis in left)
