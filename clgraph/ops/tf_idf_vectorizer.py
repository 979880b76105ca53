"""How often sequences of words or numbers occur, weighted: ONNX's TfIdfVectorizer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered
from clgraph.errors import ModelError, ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive
from clgraph.ops.grams import Grams

_MOST_COLUMNS = 1 << 31
"""Of a result: ONNX's indices are larger than memory."""

_MOST_COUNTED = 1 << 16
"""Columns of all rows whose counts may be integers first, of 64 bits."""

_ONE = np.float32(1)


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
    warns: ClassVar[bool] = False

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if x.ndim not in (1, 2):
            raise ShapeError(f"items {list(x.shape)} are neither [items] nor [rows, items]")
        grams, width = _grams(self)
        codes = grams.codes(x if x.ndim == 2 else x[np.newaxis])
        # Behind the columns one for what is no n-gram.
        rows, across = len(codes), width + 1
        found = [*self._keys(grams, codes)]
        places = grams.columns(np.concatenate(found, 1) if found else codes[:, :0])
        places += grams.starts(rows)
        places = places.reshape(-1)
        if rows * across <= _MOST_COUNTED:
            counts = np.bincount(places, None, rows * across)
        else:
            counts = np.zeros(rows * across, np.float32)
            np.add.at(counts, places, _ONE)
        y = self._weighted(counts.reshape(rows, across)[:, :width].astype(np.float32))
        return (y[0] if x.ndim == 1 else y,)

    def _keys(self, grams: Grams, codes: Array) -> Iterator[Array]:
        """Yield the keys at which n-grams of each length and distance may end; those of one item once."""
        least, most = self.lengths
        items = codes.shape[1]
        if least == 1:
            yield codes
        for distance in range(1, min(self.skips + 1, items - 1) + 1):
            keys = codes
            for length in range(2, min(most, (items - 1) // distance + 1) + 1):
                keys = grams.nodes(keys)[:, :-distance] + codes[:, (length - 1) * distance :]
                if length >= least:
                    yield keys

    def _weighted(self, counts: Array) -> Array:
        if self.mode == "TF":
            return counts
        weights = _weights(self)
        with np.errstate(all="ignore"):  # of weights that no count fits
            return (counts > 0).astype(np.float32) * weights if self.mode == "IDF" else counts * weights


@remembered
def _weights(of: TfIdfVectorizer) -> Array:
    """Return the weight of each column, 1 where no n-gram has one."""
    weights = np.ones(_grams(of)[1], np.float32)
    if of.weights:
        weights[list(of.columns)] = of.weights
    return weights


@remembered
def _grams(of: TfIdfVectorizer) -> tuple[Grams, int]:
    """Return the n-grams of the pool, of equal ones the first, and the number of columns, that of no n-gram."""
    places: dict[tuple[Any, ...], int] = {}
    columns = iter(of.columns)
    for length, (begin, end) in enumerate(pairwise((*of.starts, len(of.pool))), start=1):
        for at in range(begin, end, length):
            places.setdefault(tuple(of.pool[at : at + length]), next(columns))
    width = max(of.columns, default=-1) + 1
    return Grams(places, width), width


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
