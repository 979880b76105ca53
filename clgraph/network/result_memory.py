"""Reuse of the memory of large results once the caller has dropped the returned arrays.

A new array of megabytes costs more than most operators take to fill it: the system clears every page of it at the first
touch, and takes the pages back when the array goes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.core.aligned import aligned
from clgraph.network.addresses import LEAST_BORROWED
from clgraph.network.tensors import empty

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array

NewArray = Callable[[tuple[int, ...], np.dtype[Any], int], "Array"]

LEAST_BYTES = LEAST_BORROWED
"""Smaller arrays come from the heap, which has them at hand; no kernel writes to them."""
MOST_BYTES = 1 << 26
"""Memory that is kept at most, that which the caller still has included."""
SLACK = 1.25
"""Memory is used again for what needs at least its size divided by this."""


class ResultMemory:
    """Memory of the results returned last, oldest first. A lock keeps its users apart: that of their workspace.

    Whatever views an array refers to the memory itself, through however many views: NumPy sees to that. So nobody has
    any of it left when the list here is the only one that refers to it.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: list[Array] = []

    @property
    def nbytes(self) -> int:
        """Bytes that are kept, used by the caller or not."""
        return sum(memory.nbytes for memory in self._kept)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int) -> Array:
        """Return a C-contiguous array of *nbytes* bytes that hold anything, the first aligned, with room behind them.

        Kernels may touch ``ALIGNMENT`` bytes behind it.

        Raises:
            DeviceMemoryError: The host has no memory left for it.
        """
        if not kept_bytes(nbytes):
            return empty(shape, dtype)
        free = [memory for memory in self._kept if _users(memory) == _NOBODY]
        found = next((memory for memory in free if nbytes <= memory.nbytes <= SLACK * nbytes), None)
        if found is None:
            # One for one: sizes that have gone out of use do not pile up.
            dropped = free[:1]
            found = empty((nbytes,), np.dtype(np.uint8))
            self._kept = [memory for memory in self._kept if all(memory is not other for other in dropped)]
            self._kept.append(found)
            while self.nbytes > MOST_BYTES:
                del self._kept[0]
        return np.ndarray(shape, dtype, found)


def kept_bytes(nbytes: int) -> int:
    """Return how many of the *nbytes* bytes of an array are kept when the caller drops it: all or none."""
    return nbytes if LEAST_BYTES <= nbytes <= MOST_BYTES else 0


def _users(memory: Array) -> int:
    """Return how often what *memory* is a view of is referred to, this call included."""
    return sys.getrefcount(memory.base)


_NOBODY = _users(aligned(LEAST_BYTES))
