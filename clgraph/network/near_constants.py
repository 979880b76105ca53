"""Copies of mapped weights in large pages, shared by the programs of a model and by its clones."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from weakref import ReferenceType, ref

import numpy as np

from clgraph.core.mapped import files_of, release
from clgraph.graph.primitive import Array

LEAST_BYTES = 1 << 22
"""What is worth a copy: two large pages of most processors."""
MOST_BYTES = 1 << 30
"""Of the weights of one model: a GiB takes .15 s to copy, and memory that other processes do not share."""

_UNIT = 64
_ASKED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


class NearConstants:
    """Copies weights out of files, whose small pages kernels that walk through all of them are slower to read.

    Each page of 4 KiB has an address of its own to be translated, and ends what the core reads ahead. With weights in
    pages of 2 MiB, MiniLM with 12 tokens takes 0.78 of the time, ResNet-50 0.95 (Zen 4).

    Copies are found by identity of the array, and live as long as who asked for them keeps them.
    """

    def __init__(self) -> None:
        self._copies: dict[int, tuple[ReferenceType[Array], ReferenceType[Array]]] = {}
        self._blocks: list[tuple[ReferenceType[Array], int]] = []
        self._lock = threading.Lock()

    def of(self, arrays: Iterable[Array]) -> dict[int, Array]:
        """Return the copies of those of *arrays* that have one, by the array's ``id``.

        Copied are now those that lie in mapped files, where they are many and the system has large pages. The pages of
        the file are given back.
        """
        with self._lock:
            mapped = [array for array in arrays if files_of([array])]
            found = {id(array): copy for array in mapped if (copy := self._find(array)) is not None}
            new = [array for array in mapped if id(array) not in found]
            size = sum(_room(array) for array in new)
            self._blocks = [(block, taken) for block, taken in self._blocks if block() is not None]
            most = MOST_BYTES - sum(taken for _, taken in self._blocks)
            if LEAST_BYTES <= size <= most and has_large_pages():
                found |= self._copied(new, size)
            return found

    def _find(self, array: Array) -> Array | None:
        known = self._copies.get(id(array))
        # An id is given again when its array is gone.
        return known[1]() if known is not None and known[0]() is array else None

    def _copied(self, arrays: Iterable[Array], size: int) -> dict[int, Array]:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
        block: Array = np.frombuffer(memory, np.uint8)
        self._blocks.append((ref(block), size))
        self._copies = {k: c for k, c in self._copies.items() if c[0]() is not None and c[1]() is not None}
        start, found = 0, {}
        for array in arrays:
            copy = block[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            copy[...] = array
            copy.flags.writeable = False
            release(array)
            found[id(array)] = copy
            self._copies[id(array)] = ref(array), ref(copy)
            start += _room(array)
        return found


def _room(array: Array) -> int:
    """Return the bytes of a copy, with those behind it that a vector load may touch, to the next aligned one."""
    return -(-array.nbytes // _UNIT) * _UNIT + _UNIT


@cache
def has_large_pages() -> bool:
    """Whether the system gives large pages to memory that asks for them."""
    try:
        return hasattr(mmap, "MADV_HUGEPAGE") and "[never]" not in _ASKED.read_text("ascii")
    except OSError:
        return False
