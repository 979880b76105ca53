"""Random numbers as a function of a key and a place: the Philox generator, and the key that every run of a model has.

A node without a seed reads the key, an input of the model that :meth:`clgraph.Model.run` fills, so that no pass takes
its numbers for constants, and the same key gives the same numbers again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array


RANDOM_KEY = "clgraph.random_key"
"""The input that the key of a run is fed by: ``uint32[2]``. Who feeds it gets the same numbers again."""
KEY_WORDS = 2

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_FOLDED = 1
"""The last word of the counter where a key is made of another; that of numbers is 0."""


def philox(counter: Sequence[Array | int], key: Sequence[int]) -> Array:
    """Return four words ``uint32[4][...]`` for counters of four words each, by Philox4x32-10.

    J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw: Parallel Random Numbers: As Easy as 1, 2, 3. SC 2011.
    """
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(word, np.uint64) for word in counter))
    k0, k1 = (int(word) & 0xFFFFFFFF for word in key)
    for _ in range(_ROUNDS):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (second >> _SHIFT) ^ c1 ^ np.uint64(k0), second & _LOW
        c2, c3 = (first >> _SHIFT) ^ c3 ^ np.uint64(k1), first & _LOW
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3]).astype(np.uint32)


def fresh_key() -> Array:
    """Return the key of a run, out of the system's entropy."""
    return np.frombuffer(os.urandom(4 * KEY_WORDS), np.uint32)


def with_key(feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *feeds* with a key, where they have none."""
    return feeds if RANDOM_KEY in feeds else {**feeds, RANDOM_KEY: fresh_key()}


def folded(key: Array, number: int) -> Array:
    """Return the key of trip *number* of a loop whose key is *key*."""
    words: Array = philox((number & 0xFFFFFFFF, number >> 32, 0, _FOLDED), np.asarray(key).tolist())
    return words[:KEY_WORDS]
