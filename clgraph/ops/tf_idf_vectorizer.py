"""How often sequences of words or numbers occur, weighted: ONNX's TfIdfVectorizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered
from clgraph.errors import ModelError, ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive

_MOST_COLUMNS = 1 << 31
"""Of a result: ONNX's indices are larger than memory."""


@primitive
@frozen
class TfIdfVectorizer(OfHostValues, Remembering):
    """Counts of n-grams in x ``[items]`` or ``[rows, items]``: float32 ``[columns]`` or ``[rows, columns]``.

    The items of an n-gram follow each other at distances of 1 to *skips* + 1.

    Attributes:
        mode: ``TF`` for the count, ``IDF`` for the weight of what occurs at all, ``TFIDF`` for count times weight.
        lengths: The shortest and the longest n-grams that count.
        pool: All n-grams one behind the other, short ones first.
        starts: Where in *pool* those of 1, 2, 3 … items begin.
        columns: Of the n-grams of the pool, in its order.
        weights: Of the n-grams, too; none for 1.
    """

    mode: str
    lengths: tuple[int, int]
    skips: int
    pool: tuple[str, ...] | tuple[int, ...]
    starts: tuple[int, ...]
    columns: tuple[int, ...]
    weights: tuple[float, ...] = ()

    kind: ClassVar[str] = "tf_idf_vectorizer"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if x.ndim not in (1, 2):
            raise ShapeError(f"items {list(x.shape)} are neither [items] nor [rows, items]")
        rows, place_of = np.atleast_2d(x).tolist(), _places(self).get
        counts = np.zeros((len(rows), max(self.columns, default=-1) + 1), np.float32)
        for row, count in zip(rows, counts, strict=True):
            found = [place for gram in self._grams(row) if (place := place_of(gram)) is not None]
            count += np.bincount(found, minlength=len(count)) if found else 0
        y = self._weighted(counts)
        return (y[0] if x.ndim == 1 else y,)

    def _grams(self, row: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Return the n-grams of a row; an item by itself is a tuple, too."""
        least, most = self.lengths
        for length in range(least, min(most, len(row)) + 1):
            furthest = 1 if length == 1 else min(self.skips + 1, (len(row) - 1) // (length - 1))
            for distance in range(1, furthest + 1):
                yield from zip(*(row[i * distance :] for i in range(length)), strict=False)

    def _weighted(self, counts: Array) -> Array:
        if self.mode == "TF":
            return counts
        weights = np.ones(counts.shape[1], np.float32)
        if self.weights:
            weights[list(self.columns)] = self.weights
        return (counts > 0).astype(np.float32) * weights if self.mode == "IDF" else counts * weights


@remembered
def _places(of: TfIdfVectorizer) -> Mapping[tuple[Any, ...], int]:
    """Return the column of every n-gram of the pool."""
    places: dict[tuple[Any, ...], int] = {}
    columns = iter(of.columns)
    for length, (begin, end) in enumerate(pairwise((*of.starts, len(of.pool))), start=1):
        for at in range(begin, end, length):
            places.setdefault(tuple(of.pool[at : at + length]), next(columns))
    return places


@onnx("TfIdfVectorizer", since=(9,))
def import_tf_idf_vectorizer(node: OnnxNode) -> Primitive:
    strings, numbers = node.attribute("pool_strings", ()), node.attribute("pool_int64s", ())
    starts, columns = node.attribute("ngram_counts", ()), node.attribute("ngram_indexes", ())
    pool, weights = strings or numbers, node.attribute("weights", ())
    sizes = [end - begin for begin, end in pairwise((*starts, len(pool)))]
    uneven = any(size < 0 or size % length for length, size in enumerate(sizes, start=1))
    if uneven or sum(sizes) != len(pool):
        raise ModelError(f"ngram_counts {list(starts)} do not cut a pool of {len(pool)} items into n-grams")
    grams = sum(size // length for length, size in enumerate(sizes, start=1))
    if len(columns) != grams or not 0 <= min(columns, default=0) <= max(columns, default=0) < _MOST_COLUMNS:
        raise ModelError(f"the pool's {grams} n-grams require as many ngram_indexes, from 0 to {_MOST_COLUMNS - 1}")
    if weights and len(weights) != grams:
        raise ModelError(f"the pool's {grams} n-grams require as many weights, not {len(weights)}")
    lengths = node.attribute("min_gram_length", 1), node.attribute("max_gram_length", 1)
    skips = node.attribute("max_skip_count", 0)
    if not 1 <= lengths[0] <= lengths[1] or skips < 0:
        raise ModelError(f"n-grams of {lengths[0]} to {lengths[1]} items, at most {skips} skipped, there are none of")
    return TfIdfVectorizer(node.attribute("mode", "TF"), lengths, skips, pool, starts, columns, weights)
