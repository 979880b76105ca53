"""How tiles of convolutions read weights: what cores wait for, and what they fetch ahead."""

from __future__ import annotations

from clgraph.implementations.cpu.cost import again_seconds
from clgraph.selector.query import DeviceInfo

FETCHED_WEIGHTS = 1 << 15
"""Bytes of weights that are fetched ahead where each is read once; less is in a core's cache since the run before."""

FETCHED_AHEAD = 1 << 14
"""Bytes from the weights at hand to those that are fetched, where a chunk reads all of a group: 4 KB do as well."""


def weights_waited(device: DeviceInfo, group_bytes: int, groups: int, chunks: int, times: int) -> float:
    """Return what workers wait for weights that go by the own caches of cores.

    Args:
        chunks: Of the pixels of a ticket, which all read the weights of a group while the next one's are on their way.
        times: How often all groups are read so.
    """
    again = again_seconds(device, 2 * group_bytes, groups * (chunks - 1) * times)
    return again_seconds(device, group_bytes * groups, times) + again


def weight_distance(group: int, chunks: int) -> int:
    """Return how far behind the weights of a *group*, in floats as they are, those lie that its *chunks* fetch."""
    return group if chunks > 1 else min(group, FETCHED_AHEAD // 4)


def fetched_a_step(nbytes: int, chunks: int, total: int) -> int:
    """Return the bytes of the next group's weights that a step of *nbytes* fetches in each chunk, a cache line at most.

    0 where the chunks of a ticket are too few, or weights of *total* bytes stay in a core's cache.
    """
    each = -(-nbytes // chunks)
    return each if each <= 64 and total > FETCHED_WEIGHTS else 0
