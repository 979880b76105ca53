"""Each element or slice once: ONNX's Unique."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.attributes import positive_axis
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, DataDependent, primitive

_FEW = 64
"""Integers that are compared one by one."""

_DENSE = 4
"""Numbers from 0 on that are counted instead of sorted, in numbers that there are."""

COLUMNS = 64
"""Integers of a slice that are made one number: more are seldom so small."""


@primitive
@frozen
class Unique(DataDependent):
    """The different elements of x, or slices along *axis*; where each comes first; which each one is; how often it is.

    Attributes:
        ordered: Ascending; else as they come first.
        wanted: How many of the results there are.
    """

    axis: int | None = None
    ordered: bool = True
    wanted: int = 4

    kind: ClassVar[str] = "unique"
    warns: ClassVar[bool] = False

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,), keys = inputs, None
        if x.dtype.kind in "iub" and 0 < x.size <= _FEW:
            return self._of_few(x)
        if self.axis is not None:
            keys = _keys(np.moveaxis(x, positive_axis(self.axis, x.ndim), 0))
        if self.ordered and self.wanted == 1 and keys is None:
            # Places take a stable sort of indices, which is three times as long.
            return (np.unique(x, axis=self.axis),)
        if keys is not None and (span := int(keys.max()) + 1) <= _DENSE * len(keys):
            found, first, which, count = _of_dense(keys, span)
        else:
            found, first, which, count = np.unique(
                x if keys is None else keys,
                return_index=True,
                return_inverse=True,
                return_counts=True,
                axis=None if keys is not None else self.axis,
            )
        if keys is not None:
            found = x.take(first, self.axis)
        which = which.ravel()
        if not self.ordered:
            order = np.argsort(first)
            rank = np.empty_like(order)
            rank[order] = np.arange(len(order))
            found, first, which, count = found.take(order, self.axis), first[order], rank[which], count[order]
        return (found, *(a.astype(np.int64) for a in (first, which, count)))[: self.wanted]

    def _of_few(self, x: Array) -> tuple[Array, ...]:
        """Return the same of integers so few that to call NumPy's functions takes longer than to compare them."""
        axis = None if self.axis is None else positive_axis(self.axis, x.ndim)
        if axis is None:
            keys = x.ravel().tolist()
        elif x.ndim == 2:
            keys = [*zip(*(x if axis else x.T).tolist(), strict=True)]
        else:
            keys = [*map(tuple, np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1).tolist())]
        # Backwards: of equal ones the first place is set last.
        places: dict[Any, int] = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
        first = [places[key] for key in sorted(places)] if self.ordered else sorted(places.values())
        at = np.array(first, np.int64)
        found = x.take(at, axis)
        if self.wanted <= 2:
            return (found, at)[: self.wanted]
        rank = {place: i for i, place in enumerate(first)}
        which, count = [rank[places[key]] for key in keys], [0] * len(first)
        for i in which:
            count[i] += 1
        return (found, at, np.array(which, np.int64), np.array(count, np.int64))[: self.wanted]


def _of_dense(keys: Array, span: int) -> tuple[Array, ...]:
    """Return what ``np.unique`` does of numbers from 0 to *span* - 1, without sorting them."""
    places = np.full(span, -1)
    places[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)  # of equal ones the first place is set last
    found = np.flatnonzero(places >= 0)
    rank = np.empty(span, np.int64)
    rank[found] = np.arange(len(found))
    return found, places[found], rank[keys], np.bincount(keys)[found]


def _keys(slices: Array) -> Array | None:
    """Return an integer for each of the *slices* of integers, ordered as they are; ``None`` where 64 bits are few."""
    if slices.dtype.kind not in "iub" or not 0 < slices.size <= COLUMNS * len(slices):
        return None
    rows = slices.reshape(len(slices), -1)
    sizes = [int(high) - int(low) + 1 for low, high in zip(rows.min(0), rows.max(0), strict=True)]
    if prod(sizes) >= 1 << 62:
        return None
    weights = np.array([prod(sizes[i + 1 :]) for i in range(len(sizes))], np.int64)
    # Of 64 bits without a sign the differences are the same.
    keys: Array = (rows.astype(np.int64) - rows.min(0).astype(np.int64)) @ weights
    return keys


@onnx("Unique", since=(11, 28))
def import_unique(node: OnnxNode) -> Sequence[str]:
    wanted = max(1, node.output_count)
    unique = Unique(node.attribute("axis", None), bool(node.attribute("sorted", 1)), wanted)
    return node.emit(unique, node.inputs[0], outputs=wanted)


@onnx("Unique", since=(1,), domain=MICROSOFT)
def import_unique_in_order(node: OnnxNode) -> Sequence[str]:
    """Return the elements as they come first, which of them each one is, and how often each is."""
    found, _, which, count = node.emit(Unique(ordered=False), node.inputs[0], outputs=4)
    return found, which, count
