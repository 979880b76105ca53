"""What graphs of one operator are made of: shapes, numbers, operands, and the operators by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tools.fuzzing.making import Array, Making, Shape, Tensor

SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 65)
MOST_ELEMENTS = 3000
EMPTY = 0.06
"""The share of shapes that may have axes of no elements."""
SPECIAL = 0.25
"""The share of arrays with numbers that are none, as large as they get, or smaller than normal ones."""
STRANGE = (np.nan, np.inf, -np.inf, -0.0, 0.0, 3e38, -3e38, 1e-38, 1.0, -1.0, 0.5, 2.5, -1.5, 88.9, -104.0, 2.0**31)
FLOATS = (np.float32, np.float32, np.float32, np.float16, np.float64)
INTEGERS = (np.int64, np.int32, np.int64, np.int32, np.int8, np.uint8)
NUMBERS = (*FLOATS, *INTEGERS)

Case = Callable[[Making], None]
CASES: dict[str, Case] = {}
"""By operator."""


def case(*names: str) -> Callable[[Callable[[Making, str], None]], Callable[[Making, str], None]]:
    """Make a function known that adds any of the operators *names*."""

    def known(function: Callable[[Making, str], None]) -> Callable[[Making, str], None]:
        for name in names:
            CASES[name] = lambda g, name=name: function(g, name)  # type: ignore[misc]  # a default of a lambda
        return function

    return known


def shape_of(g: Making, ranks: Sequence[int] = (0, 1, 1, 2, 2, 3, 4, 5)) -> Shape:
    """Return sizes of not too many elements together."""
    empty = g.chance(EMPTY)
    dims = [int(g.one(SIZES if empty else SIZES[1:])) for _ in range(int(g.one(ranks)))]
    while math.prod(dims) > MOST_ELEMENTS:
        dims[dims.index(max(dims))] = g.number(1, 5)
    return tuple(dims)


def numbers(
    g: Making, shape: Shape, dtype: Any, low: float = -4.0, high: float = 4.0, *, strange: Sequence[float] = STRANGE
) -> Array:
    """Return numbers of a type between *low* and *high*, some of them *strange* in a quarter of the arrays."""
    kind, random = np.dtype(dtype), g.random
    if kind.kind == "b":
        return np.asarray(random.integers(0, 2, shape)).astype(kind)
    ordinary = not strange or not g.chance(SPECIAL)
    if kind.kind in "iu":
        lowest, most = np.iinfo(kind).min, np.iinfo(kind).max
        made = np.asarray(random.integers(max(int(low), int(lowest)), int(high) + 1, shape)).astype(kind)
        picked = np.array([lowest, most, lowest + 1, most - 1, 0, 1], kind)
    else:
        made = np.asarray(random.uniform(low, high, shape)).astype(kind)
        with np.errstate(over="ignore"):
            picked = np.array(strange or (0,), np.float64).astype(kind)
    if ordinary:
        return made
    at = np.asarray(random.random(shape)) < 0.3
    return np.where(at, picked[np.asarray(random.integers(0, len(picked), shape))], made).astype(kind)


def tensor(
    g: Making, shape: Shape, dtype: Any, low: float = -4.0, high: float = 4.0, *, strange: Sequence[float] = STRANGE
) -> Tensor:
    """Add an operand."""
    return g.source(shape, dtype, array=numbers(g, shape, dtype, low, high, strange=strange), keep=False)


def term(g: Making, shape: Shape, dtype: Any, low: float = -4.0, high: float = 4.0) -> Tensor:
    """Add an operand of sums, whose order decides what overflows: none of its numbers does.

    What is not a number goes into the sum here, and not always in ONNX Runtime.
    """
    return tensor(g, shape, dtype, low, high, strange=(np.inf, 0.0) if np.dtype(dtype).kind == "f" else ())


def axis_of(g: Making, rank: int) -> int:
    """Return an axis, counted from either end."""
    return g.number(-rank, rank - 1)


def beside(g: Making, shape: Shape) -> Shape:
    """Return a shape that broadcasts with *shape*."""
    cut = shape[g.number(0, len(shape)) :]
    return tuple(1 if g.chance(0.3) else d for d in cut)


def index_array(g: Making, shape: Shape, size: int) -> Tensor:
    """Add places on an axis, counted from either end."""
    found = np.asarray(g.random.integers(-size, size, shape)) if size else np.zeros(shape)
    return g.source(shape, np.int64, array=found.astype(g.one((np.int64, np.int32))), keep=False)


def filled(g: Making, ranks: Sequence[int]) -> Shape:
    """Return a shape without empty axes."""
    return tuple(max(1, d) for d in shape_of(g, ranks))
