"""Draws calls of operators: sizes, arrays, attributes, and which optional inputs there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clgraph.core.frozen import frozen

Array = np.ndarray[Any, Any]
F, INT = np.float32, np.int32


@frozen
class Call:
    """A call of an operator.

    Attributes:
        inputs: Arrays, ``None`` for an absent one.
        constant: Places of those that are initialisers.
    """

    inputs: tuple[Array | None, ...]
    attributes: dict[str, Any]
    outputs: int = 1
    constant: tuple[int, ...] = ()


class Draw:
    """Random sizes, arrays and choices."""

    def __init__(self, seed: int) -> None:
        """Begin; the same *seed* draws the same."""
        self.rng = np.random.default_rng(seed)

    def one(self, *values: Any) -> Any:
        """Return one of *values*."""
        return values[self.rng.integers(len(values))]

    def some(self, **values: tuple[Any, ...]) -> dict[str, Any]:
        """Return one value of each of some of *values*; the others keep their defaults."""
        return {name: self.one(*given) for name, given in values.items() if self.rng.integers(3)}

    def size(self, low: int = 1, high: int = 6) -> int:
        """Return a size from *low* to *high*."""
        return int(self.rng.integers(low, high + 1))

    def normal(self, *shape: int) -> Array:
        """Return normally distributed numbers."""
        return self.rng.standard_normal(shape).astype(F)

    def integers(self, low: int, high: int, shape: Any = (), dtype: Any = np.int64) -> Array:
        """Return integers below *high*."""
        return np.asarray(self.rng.integers(low, high, shape)).astype(dtype)

    def maybe(self, made: Callable[[], Array]) -> Array | None:
        """Return what *made* makes, or nothing."""
        return made() if self.rng.integers(2) else None

    def mask(self, *shape: int) -> Array:
        """Return ones and zeros of which no row is all zeros: what is masked has -10000, to which sums are rounded."""
        made = self.integers(0, 2, shape, INT)
        made[..., 0] = 1
        return made

    def scale(self) -> Array:
        """Return a scale of 8-bit integers."""
        return np.asarray(self.rng.uniform(0.01, 0.1), F)


def normal(rng: np.random.Generator, *shape: int) -> Array:
    """Return normal numbers of a shape."""
    return rng.standard_normal(shape).astype(F)
