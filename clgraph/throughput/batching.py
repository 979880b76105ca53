"""How concurrent requests become batches: what a user asks for, what fits together, joining and cutting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import isfinite
from typing import Any

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.errors import OptionError
from clgraph.graph.primitive import Array

DEFAULT = 16
"""Entries of a batch at most, where nobody has said or measured anything."""
LARGEST = 1024
"""Requests of a batch at most."""
MOST_SIDE_BY_SIDE = 4
"""Requests that a core computes in one run at most: what begins and ends it is a quarter then, and more gain little."""

Key = tuple[tuple[str, Shape], ...]
"""Element type and shape of each input without the batch, open lengths rounded up: requests of one key are joined."""


@frozen
class Batching:
    """How concurrent requests are joined along the batch dimension.

    Attributes:
        maximum: Entries of a batch at most; by default what ``clgraph.tune_streams`` has found, else 16. Sizes that are
            used are powers of two, so that few shapes are bound.
        wait_ms: How long the first request of a batch waits for others while a stream has nothing else to do.
        pad: What requests of another length are filled up with, by input: ``{"input_ids": 0, "attention_mask": 0}``.
            That the model takes it for nothing is the caller's promise. Without, only equal shapes are joined.
        step: With *pad*, lengths that round up to the same multiple of it are joined, and filled up to that.
    """

    maximum: int | None = None
    wait_ms: float = 2.0
    pad: Mapping[str, float] = field(default_factory=dict)
    step: int = 16

    def __post_init__(self) -> None:
        """Check the numbers. Raises ``OptionError`` for one that means nothing."""
        for name in ("most", "step"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= LARGEST:
                what = "maximum" if name == "most" else name
                raise OptionError(f"batching: {what}={value!r} is not a whole number from 1 to {LARGEST}")
        if not (isinstance(self.wait_ms, int | float) and isfinite(self.wait_ms) and self.wait_ms >= 0):
            raise OptionError(f"batching: wait_ms={self.wait_ms!r} is not a number of milliseconds")
        if not isinstance(self.pad, Mapping):
            raise OptionError(f"batching: pad is a number by input, as {{'input_ids': 0}}, not {self.pad!r}")

    @property
    def most(self) -> int:
        """Entries of a batch at most."""
        return DEFAULT if self.maximum is None else self.maximum

    def rounded(self, length: int) -> int:
        """Return the length that requests of *length* are filled up to."""
        return -(-length // self.step) * self.step


@frozen
class Joinable:
    """How requests of one key are joined: the properties that all of them share.

    Attributes:
        lengths: The axis of each input of ``pad`` that is filled up.
        cuts: By output, the axes that are as long as those, and are cut back.
    """

    lengths: Mapping[str, int]
    cuts: Mapping[str, tuple[int, ...]]


def full(rows: int) -> int:
    """Return the largest power of two of at most *rows* entries: the batch that is run of so many."""
    return 1 << (rows.bit_length() - 1)


def join(several: Sequence[Mapping[str, Array]], key: Key, batching: Batching, joinable: Joinable) -> dict[str, Array]:
    """Return the feeds of one run for the feeds of *several* requests of one *key*, one behind the other."""
    joined: dict[str, Array] = {}
    for number, name in enumerate(several[0]):
        arrays = [feeds[name] for feeds in several]
        if name in joinable.lengths:
            arrays = [_filled(a, key[number][1], batching.pad[name]) for a in arrays]
        joined[name] = np.concatenate(arrays)
    return joined


def _filled(array: Array, shape: Shape, number: float) -> Array:
    if array.shape[1:] == shape:
        return array
    found = np.full((len(array), *shape), number, array.dtype)
    found[tuple(map(slice, array.shape))] = array
    return found


def cut(
    results: Mapping[str, Array], rows: Sequence[int], lengths: Sequence[int], joinable: Joinable
) -> list[dict[str, Any]]:
    """Return the results of each request: copies, because a part would keep the memory of the whole batch.

    Args:
        rows: Entries of each request, *lengths* the length that each had before it was filled up.
    """
    total, found, start = sum(rows), [], 0
    for count, length in zip(rows, lengths, strict=True):
        own = {}
        for name, array in results.items():
            scale = len(array) // total
            part = array[start * scale : (start + count) * scale]
            axes = joinable.cuts.get(name, ())
            own[name] = part[tuple(slice(length) if a in axes else slice(None) for a in range(part.ndim))].copy()
        found.append(own)
        start += count
    return found
