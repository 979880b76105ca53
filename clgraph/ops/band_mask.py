"""Matrices that go by the distance of row and column: masks of causal attentions and sliding windows, triangles."""

from __future__ import annotations

from functools import lru_cache
from math import inf

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.primitive import Array


def band_mask(
    rows: int, keys: int, before: int, *, ahead: float = inf, behind: float = inf, low: float, dtype: DType
) -> Array:
    """Return the mask ``[rows][keys]``: 0 for the keys that a token sees, *low* for others.

    Args:
        rows: How many tokens there are.
        keys: How many keys.
        before: How many keys come before that of the first token.
        ahead: How many keys behind its own a token sees.
        behind: How many before its own.
        low: What is added to the products of what is hidden.
        dtype: Of the mask.
    """
    return matrix_of(_by_distance(rows, keys, before, ahead, behind, low, dtype), keys)


@lru_cache(maxsize=16)
def _by_distance(rows: int, keys: int, before: int, ahead: float, behind: float, low: float, dtype: DType) -> Array:
    """Return what :func:`band_mask` holds by distance: the layers of a model have one in common."""
    distance = distances(rows, keys) - before
    hidden = (distance > ahead) | (distance < -behind)
    found: Array = np.where(hidden, dtype.numpy.type(low), dtype.numpy.type(0))
    found.flags.writeable = False
    return found


def distances(rows: int, columns: int) -> Array:
    """Return all values of column minus row in a matrix ``[rows][columns]``, ascending, and one below."""
    return np.arange(-rows, columns)


def matrix_of(by_distance: Array, columns: int) -> Array:
    """Return the matrix whose elements are given *by_distance*, in the order of :func:`distances`.

    A row reads one vector of all distances from its own place on, and the matrix is a view of that: families build
    programs of sizes that nobody runs, for which it would take gigabytes.
    """
    return np.lib.stride_tricks.sliding_window_view(by_distance, columns)[:0:-1]
