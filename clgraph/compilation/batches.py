"""Batches of a model: the size that its inputs have in common, and the largest that fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from clgraph.core.layout import Shape
from clgraph.graph.open_batch import with_batches
from clgraph.graph.topology import Topology

LARGEST_BATCH = 1 << 16
"""Larger batches are not tried."""


def common_batch(shapes: Mapping[str, Shape]) -> int:
    """Return the first size that all *shapes* have; 0 where there is none."""
    sizes = {shape[0] if shape else 0 for shape in shapes.values()}
    return sizes.pop() if len(sizes) == 1 else 0


def with_batch(topology: Topology, shapes: Mapping[str, Shape], entries: int) -> Topology:
    """Return *topology* for inputs of *shapes* but of so many entries: itself where their number is open.

    Raises:
        InputError: As ``with_shapes``.
    """
    firsts = [signature.shape[0] if signature.shape else None for signature in topology.inputs.values()]
    if not any(isinstance(first, int) for first in firsts):
        return topology
    return with_batches(topology, {name: (entries, *shape[1:]) for name, shape in shapes.items()})


def largest_batch(
    takes: Callable[[int], float],
    limit: int,
    start: int = 1,
    most: int = LARGEST_BATCH,
    beyond: float = float("inf"),
) -> int:
    """Return a number of entries that takes at most *limit* bytes where one more takes more, or *most*; 0 for none.

    Bytes mostly grow by the same for each entry, so that what lies on the line between two trials is tried next, but
    every other time the middle.

    Args:
        takes: Bytes that so many entries take; more need not take more, as batches that divide well are computed in
            slices.
        start: What is tried first.
        most: No more are tried; one more takes *beyond* bytes, where that is known.
    """
    low, high = 0, most + 1
    known = {high: beyond} if beyond < float("inf") else {}
    trial, number = min(max(start, 1), most), 0
    while high - low > 1:
        known[trial] = takes(trial)
        if known[trial] <= limit:
            low = trial
        else:
            high = trial
        number += 1
        trial = _next(low, high, known, limit, most, by_line=number % 3 != 0)
    return low


def _next(low: int, high: int, known: Mapping[int, float], limit: int, most: int, *, by_line: bool) -> int:
    """Return what to try between *low*, which fits, and *high*, which does not."""
    middle = min(2 * low, most) if high > most else (low + high) // 2
    fitting = sorted(known)
    if not by_line or len(fitting) < 2:
        return max(low + 1, min(middle, high - 1))
    first, second = (low, high) if low in known and high in known else (fitting[0], fitting[-1])
    slope = (known[second] - known[first]) / (second - first)
    if not 0 < slope < float("inf"):
        return max(low + 1, min(middle, high - 1))
    return max(low + 1, min(int(first + (limit - known[first]) / slope), high - 1))
