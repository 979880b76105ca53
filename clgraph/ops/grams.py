"""The n-grams of a pool as a tree that all rows of items go down at once."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Any

import numpy as np

from clgraph.graph.primitive import Array

_MOST_CELLS = 1 << 16
"""Of a table of all nodes and items; beyond, the nodes that there are get searched."""

_NONE = 0
"""The node of what begins no n-gram."""

_LAST = np.iinfo(np.int64).max
"""Behind every key."""


class Grams:
    """N-grams of one type of items, and the column of each.

    Attributes:
        root: The node that rows begin at.
        columns: Of each node, int64; -1 where no n-gram ends.
    """

    root = 1

    def __init__(self, columns: Mapping[tuple[Any, ...], int]) -> None:
        """Take n-grams of strings or of integers, by column."""
        items = sorted({item for gram in columns for item in gram})
        self._codes = {item: code for code, item in enumerate(items)}
        self._numbers = np.array([item for item in items if not isinstance(item, str)], np.int64)
        self._width = len(items) + 1
        children: dict[int, int] = {}
        ends = [-1, -1]
        for gram, column in columns.items():
            node = self.root
            for item in gram:
                node = children.setdefault(node * self._width + self._codes[item], len(ends))
                if node == len(ends):
                    ends.append(-1)
            ends[node] = column
        self.columns = np.array(ends)
        keys = sorted(children)
        self._keys = np.array([*keys, _LAST], np.int64)
        self._children = np.array([*map(children.__getitem__, keys), _NONE], np.int64)
        self._table: Array | None = None
        if (cells := len(ends) * self._width) <= _MOST_CELLS:
            self._table = np.full(cells, _NONE, np.int64)
            self._table[self._keys[:-1]] = self._children[:-1]

    def codes(self, x: Array) -> Array:
        """Return a number for each item of x, the same for all that no n-gram has."""
        none = self._width - 1
        if x.dtype == object or not len(self._numbers):
            return np.fromiter(map(self._codes.get, x.ravel().tolist(), repeat(none)), np.int64, x.size).reshape(
                x.shape
            )
        at = np.minimum(self._numbers.searchsorted(x), none - 1)
        return np.where(self._numbers.take(at) == x, at, none)

    def below(self, nodes: Array | int, codes: Array) -> Array:
        """Return the node that each item leads to from each of *nodes*."""
        keys = nodes * self._width + codes
        if self._table is not None:
            return self._table.take(keys)
        at = self._keys.searchsorted(keys)
        return np.where(self._keys.take(at) == keys, self._children.take(at), _NONE)
