"""The n-grams of a pool as a tree that all rows of items go down at once."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Any

import numpy as np

from clgraph.graph.primitive import Array

_MOST_CELLS = 1 << 16
"""Of a table of all nodes and items; beyond, the nodes that there are get searched."""

_LAST = np.iinfo(np.int64).max
"""Behind every key."""


class Grams:
    """N-grams of one type of items, and the column of each.

    A node of the tree is the number of its row in a table of all nodes and items, times the items of a row: the key of
    what an item leads to is the sum of both. The root is 0.
    """

    def __init__(self, columns: Mapping[tuple[Any, ...], int], none: int) -> None:
        """Take n-grams of strings or of integers, by column; *none* is the column where no n-gram ends."""
        items = sorted({item for gram in columns for item in gram})
        self._codes = {item: code for code, item in enumerate(items)}
        self._numbers = np.array([item for item in items if not isinstance(item, str)], np.int64)
        width = self._width = len(items) + 1
        # The node behind the root is that of what begins no n-gram.
        self._nothing, self._no_column, rows = width, none, 2
        children, ends = dict[int, int](), dict[int, int]()
        for gram, column in columns.items():
            node = key = 0
            for item in gram:
                key = node + self._codes[item]
                node = children.setdefault(key, rows * width)
                rows += node == rows * width
            ends[key] = column
        keys = sorted(children)
        self._keys = np.array([*keys, _LAST], np.int64)
        self._children = np.array([*map(children.__getitem__, keys), width], np.int64)
        self._ends = np.array([*(ends.get(key, none) for key in keys), none], np.int64)
        self._tables: tuple[Array, Array] | None = None
        self._starts = np.zeros((0, 1), np.int64)
        if (cells := rows * width) <= _MOST_CELLS:
            self._tables = np.full(cells, width, np.int64), np.full(cells, none, np.int64)
            for table, found in zip(self._tables, (self._children, self._ends), strict=True):
                table[self._keys[:-1]] = found[:-1]

    def codes(self, x: Array) -> Array:
        """Return a number for each item of x, the same for all that no n-gram has: the keys of what begins there."""
        none = self._width - 1
        if x.dtype == object or not len(self._numbers):
            return np.fromiter(map(self._codes.get, x.ravel().tolist(), repeat(none)), np.int64, x.size).reshape(
                x.shape
            )
        at = np.minimum(self._numbers.searchsorted(x), none - 1)
        return np.where(self._numbers.take(at) == x, at, none)

    def nodes(self, keys: Array) -> Array:
        """Return the node that each key leads to."""
        return self._found(keys, 0, self._children, self._nothing)

    def columns(self, keys: Array) -> Array:
        """Return the column of the n-gram that ends at each key."""
        return self._found(keys, 1, self._ends, self._no_column)

    def starts(self, rows: int) -> Array:
        """Return where rows of all columns, that of no n-gram among them, begin: ``[rows, 1]``."""
        starts, width = self._starts, self._no_column + 1
        if len(starts) != rows:
            starts = self._starts = np.arange(0, rows * width, width)[:, np.newaxis]
        return starts

    def _found(self, keys: Array, table: int, of_keys: Array, none: int) -> Array:
        if self._tables is not None:
            return self._tables[table].take(keys)
        at = self._keys.searchsorted(keys)
        return np.where(self._keys.take(at) == keys, of_keys.take(at), none)
