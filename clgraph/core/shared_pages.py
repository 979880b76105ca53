"""Memory of the host in large pages, which many arrays share: weights that are made one by one."""

from __future__ import annotations

import mmap
import threading
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

import numpy as np

from clgraph.core.aligned import ALIGNMENT, aligned
from clgraph.core.large_pages import PAGE, has_large_pages
from clgraph.handlers import suppressed

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_BYTES = 1 << 16
"""Less is spread over fewer small pages than a core knows the addresses of."""
_BLOCK = 16 * PAGE
"""Bytes that the system is asked for at a time; it gives pages when they are written to."""


def in_large_pages(nbytes: int) -> NDArray[Any]:
    """Return *nbytes* new bytes as :func:`clgraph.core.aligned.aligned` does, many in large pages where there are any.

    What a kernel walks through from end to end is read a quarter faster so than in pages of 4 KiB, each of which has an
    address of its own to be translated and ends what the core reads ahead. The memory is given back when the last array
    beside it is gone.
    """
    if nbytes >= LEAST_BYTES and has_large_pages():
        # A process may have room for the bytes, and none for a block.
        with suppressed(OSError):
            return _POOL.take(nbytes)
    return aligned(nbytes)


class _Pool:
    """Gives out parts of blocks of memory, one behind the other."""

    def __init__(self) -> None:
        self._block: ReferenceType[NDArray[Any]] | None = None
        self._end = 0
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> NDArray[Any]:
        size = -(-nbytes // ALIGNMENT) * ALIGNMENT + ALIGNMENT
        with self._lock:
            # What NumPy makes of the block refers to it and to nothing in between.
            block = self._block() if self._block is not None else None
            if block is None or self._end + size > len(block):
                block = _new_block(size)
                self._block, self._end = ref(block), -block.ctypes.data % PAGE
            begin, self._end = self._end, self._end + size
        return block[begin : begin + nbytes]


_POOL = _Pool()


def _new_block(size: int) -> NDArray[Any]:
    """Return a block for *size* bytes behind the first place where a large page can begin."""
    pages = -(-max(size, _BLOCK) // PAGE) + 1
    memory = mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
