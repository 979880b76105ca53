"""Parts of mapped files brought into large pages, at the addresses that they have."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from clgraph.core.mapped import REPLACING, MappedFile

PAGE = 1 << 21
"""Bytes of a large page of most processors."""
CHUNK = 8 * PAGE
"""What is copied at a time: it takes 3 ms, and processes have a limit of some ten thousand mappings."""

_ASKED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_MAYMOVE, _FIXED, _DONTUNMAP = 1, 2, 4


@cache
def has_large_pages() -> bool:
    """Whether the system gives large pages to memory that asks for them."""
    try:
        return hasattr(mmap, "MADV_HUGEPAGE") and "[never]" not in _ASKED.read_text("ascii")
    except OSError:
        return False


def chunks(file: MappedFile, parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what of *file* is to be replaced so that its *parts*, first byte and end of each, lie in large pages.

    All but the first and the last pages of a file begin and end where a large page can.
    """
    address, last = _address(file), len(file) // mmap.PAGESIZE * mmap.PAGESIZE
    wanted = {n for begin, end in parts for n in range((address + begin) // PAGE, -(-(address + end) // PAGE))}
    runs: list[list[int]] = []
    for number in sorted(wanted):
        if not runs or runs[-1][1] != number or number - runs[-1][0] == CHUNK // PAGE:
            runs.append([number, number])
        runs[-1][1] = number + 1
    found = [(max(first * PAGE - address, 0), min(end * PAGE - address, last)) for first, end in runs]
    return [(begin, end) for begin, end in found if begin < end]


class Replacer:
    """Replaces pages of files by memory in large pages that holds the same, while others read them.

    The system moves memory to where the pages were in one step, for which readers wait.
    """

    def __init__(self) -> None:
        """Take address space for a chunk."""
        self._memory = mmap.mmap(-1, CHUNK + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self._begin = self._bytes.__array_interface__["data"][0]

    def replace(self, file: MappedFile, begin: int, end: int) -> bool:
        """Replace one of :func:`chunks`; return whether that was done: not of a file that was cut, nor by old systems.

        What is written to the file later does not show there.
        """
        if file.size() < len(file):
            return False
        to = _address(file) + begin
        start = (to - self._begin) % PAGE
        self._bytes[start : start + end - begin] = np.frombuffer(file, np.uint8)[begin:end]
        with REPLACING:
            how = _MAYMOVE | _FIXED | _DONTUNMAP
            done = bool(_mremap()(self._begin + start, end - begin, end - begin, how, to) == to)
            if done:
                file.replaced.append((begin, end))
        return done


def _address(file: MappedFile) -> int:
    address: int = np.frombuffer(file, np.uint8).__array_interface__["data"][0]
    return address


@cache
def _mremap() -> Any:
    found = ctypes.CDLL(None).mremap
    found.restype, size = ctypes.c_void_p, ctypes.c_size_t
    found.argtypes = [ctypes.c_void_p, size, size, ctypes.c_int, ctypes.c_void_p]
    return found
