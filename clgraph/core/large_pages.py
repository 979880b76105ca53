"""Parts of mapped files brought into large pages, at the addresses that they have."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from clgraph.core.mapped import REPLACING, MappedFile
from clgraph.handlers import pass_on

PAGE = 1 << 21
"""Bytes of a large page of most processors."""
CHUNK = 8 * PAGE
"""What is copied at a time: it takes 3 ms, and processes have a limit of some ten thousand mappings."""

_ASKED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_MAYMOVE, _FIXED = 1, 2
_ANONYMOUS = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
_FAILED = ctypes.c_void_p(-1).value


@cache
def has_large_pages() -> bool:
    """Whether the system gives large pages to memory that asks for them."""
    try:
        return hasattr(mmap, "MADV_HUGEPAGE") and b"[never]" not in _ASKED.read_bytes()
    except OSError as error:
        pass_on(error)
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


def replace(file: MappedFile, begin: int, end: int) -> bool:
    """Replace one of :func:`chunks` by memory in large pages that holds the same, while others read it.

    Returns whether that was done: not of a file that was cut, nor where there is no memory. The system moves memory to
    where the pages were in one step, for which readers wait. What is written to the file later does not show there.
    """
    if file.size() < len(file):
        return False
    libc, to, size = _libc(), _address(file) + begin, end - begin
    memory = libc.mmap(None, CHUNK + PAGE, mmap.PROT_READ | mmap.PROT_WRITE, _ANONYMOUS, -1, 0)
    if memory == _FAILED:
        return False
    libc.madvise(memory, CHUNK + PAGE, mmap.MADV_HUGEPAGE)
    start = memory + (to - memory) % PAGE
    ctypes.memmove(start, to, size)
    with REPLACING:
        # Memory that goes elsewhere is counted once: kept (MREMAP_DONTUNMAP) it could be past a limit, which the system
        # finds when the file's pages are gone already.
        done = bool(libc.mremap(start, size, size, _MAYMOVE | _FIXED, to) == to)
        if done:
            file.replaced.append((begin, end))
    rest = [(memory, start), (start + size, memory + CHUNK + PAGE)] if done else [(memory, memory + CHUNK + PAGE)]
    for first, last in rest:
        if first < last:
            libc.munmap(first, last - first)
    return done


def _address(file: MappedFile) -> int:
    address: int = np.frombuffer(file, np.uint8).__array_interface__["data"][0]
    return address


@cache
def _libc() -> ctypes.CDLL:
    found, size, pointer = ctypes.CDLL(None), ctypes.c_size_t, ctypes.c_void_p
    found.mmap.restype = found.mremap.restype = pointer
    found.mmap.argtypes = [pointer, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    found.mremap.argtypes = [pointer, size, size, ctypes.c_int, pointer]
    found.madvise.argtypes, found.munmap.argtypes = [pointer, size, ctypes.c_int], [pointer, size]
    return found
