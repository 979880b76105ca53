"""Keys and values in caches: the places of new tokens, the cache with them in it, and which keys they see."""

from __future__ import annotations

import numpy as np

from clgraph.graph.composite import Composition
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.pad import Pad
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.tensor_scatter import TensorScatter
from clgraph.ops.where import Where


def first_of(c: Composition, last: str, batch: int, rows: int, *, whole: bool) -> str:
    """Return the place of the first new token of each text, ``[batch]``: 0 where these are *whole*."""
    if whole:
        return c.constant(np.zeros(batch, np.int64))
    return c.add(Eltwise("sub"), last, c.constant(np.array(rows - 1, np.int64)))


def places_from(c: Composition, first: str, rows: int) -> str:
    """Return the place of each new token, ``[batch, tokens]``."""
    batch = c.layout(first).shape[0]
    column = c.add(Reshape((batch, 1), zero_is_zero=True), first)
    return c.add(Eltwise("add"), column, c.constant(np.arange(rows, dtype=np.int64)))


def cached(c: Composition, past: str | None, x: str, first: str, last: str, total: int) -> str:
    """Return the cache with x ``[batch, shared, tokens, D]`` from the places *first* on, zeros behind *last*."""
    batch, _, rows, _ = c.layout(x).shape
    before = 0 if past is None else c.layout(past).shape[2]
    if past is None or before == 0:
        return x
    places = max(before, total)
    if batch > 1 and rows != total:
        cache = c.add(TensorScatter(2), padded(c, past, places), x, first)
        count = c.constant(np.arange(places, dtype=np.int64)[:, None])
        there = c.add(Eltwise("less_equal"), count, c.add(Reshape((batch, 1, 1, 1), zero_is_zero=True), last))
        return c.add(Where(), there, cache, c.constant(np.zeros((), c.layout(x).dtype.numpy)))
    if known := total - rows:
        own = past if before == known else c.add(Slice((0,), (known,), axes=(2,)), padded(c, past, known))
        x = c.add(Concat(2), own, x)
    return padded(c, x, places)


def padded(c: Composition, cache: str, places: int) -> str:
    """Return *cache* with zeros behind its own places, as many as make *places* where it has less."""
    more = places - c.layout(cache).shape[2]
    return c.add(Pad(((0, 0), (0, 0), (0, more), (0, 0))), cache) if more > 0 else cache


def seen(c: Composition, first: str, last: str, rows: int, keys: int, window: int | None) -> str:
    """Return which keys count, ``[batch, 1, tokens, keys]``: *window* of them up to a token's own, -1 for all.

    ``None``: those behind it count, too, up to *last*.
    """
    batch = c.layout(first).shape[0]
    places = c.constant(np.arange(keys, dtype=np.int64))
    if window is None:
        ends = c.add(Reshape((batch, 1, 1, 1), zero_is_zero=True), last)
        return c.add(Eltwise("less_equal"), places, ends)
    own = c.add(Reshape((batch, 1, rows, 1), zero_is_zero=True), places_from(c, first, rows))
    before = c.add(Eltwise("less_equal"), places, own)
    if window < 0:
        return before
    start = c.add(Eltwise("sub"), own, c.constant(np.array(window, np.int64)))
    return c.add(Eltwise("and"), before, c.add(Eltwise("greater"), places, start))
