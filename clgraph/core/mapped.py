"""Contents of files: small ones are read, large ones stay mapped.

Reading behind the end of a mapped file that was cut ends the process, so that they are looked at.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np

from clgraph.errors import ModelError
from clgraph.handlers import pass_on

READ_BYTES = 1 << 24
"""Files up to this size are read, which takes milliseconds: what becomes of them later is no matter."""


class MappedFile(mmap.mmap):
    """A whole file, mapped to be read, that can tell whether it is still what it was.

    It may be removed or replaced by another of its name: the mapping keeps the old one. Whether the same file was
    changed is told by size and times; the time of change (ctime) cannot be set, as that of the content can.
    """

    path: Path
    replaced: list[tuple[int, int]]
    """First byte and end of the parts that lie in memory now (:mod:`clgraph.core.large_pages`)."""
    _was: os.stat_result

    def __new__(cls, path: Path) -> Self:
        """Map the file at *path*; raises ``OSError`` where it cannot be read, ``ValueError`` where it is empty."""
        with path.open("rb") as file:
            made = super().__new__(cls, file.fileno(), 0, access=mmap.ACCESS_READ)
            made.path, made.replaced, made._was = path, [], os.fstat(file.fileno())
        return made

    @property
    def version(self) -> Hashable:
        """Identity of the file and its content: path, file number, size, times; it changes when the file does."""
        was = self._was
        return self.path, was.st_dev, was.st_ino, was.st_size, was.st_mtime_ns, was.st_ctime_ns

    def check(self) -> None:
        """Raise ``ModelError`` where the file was cut or written to since it was mapped."""
        was = self._was
        try:
            now = os.stat(self.path)
            kept = (now.st_ino, now.st_dev) == (was.st_ino, was.st_dev)
        except OSError as error:
            pass_on(error)
            kept = False
        size = now.st_size if kept else self.size()
        if size < len(self):
            raise ModelError(f"{self.path} was cut to {size} bytes while the model was in use: load it again")
        if not kept:
            return
        if now.st_mtime_ns != was.st_mtime_ns:
            raise ModelError(f"{self.path} was written to while the model was in use: load it again")
        if now.st_ctime_ns != was.st_ctime_ns:
            raise ModelError(
                f"{self.path} was changed while the model was in use (what it holds, who may read it, or its links): "
                "load it again"
            )


def content_of(path: Path) -> bytes | MappedFile:
    """Return what a file holds, read or mapped; raises ``OSError`` where it cannot be read, ``ValueError`` if empty."""
    if path.stat().st_size > READ_BYTES:
        return MappedFile(path)
    content = path.read_bytes()
    if not content:
        raise ValueError(f"{path} is empty")
    return content


REPLACING = threading.Lock()
"""Held while pages are replaced, or given back."""


def place_in(file: MappedFile, array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return which byte of *file* a contiguous *array* in it begins at, and which it ends in front of."""
    start: int = array.__array_interface__["data"][0] - np.frombuffer(file, np.uint8).__array_interface__["data"][0]
    return start, start + array.nbytes


def release(array: np.ndarray[Any, Any]) -> None:
    """Let the system take back the memory of *array*, which lies in a mapped file and is hardly read again.

    Whoever reads it finds the file's content; elsewhere than on Linux, and for other arrays, nothing is done.
    """
    for file in files_of([array]):
        if not hasattr(mmap, "MADV_DONTNEED") or not array.flags.c_contiguous:
            return
        start, end = place_in(file, array)
        first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        with REPLACING:
            # What is no page of the file any more would be zeros.
            if last > first and not any(begin < last and first < till for begin, till in file.replaced):
                file.madvise(mmap.MADV_DONTNEED, first, last - first)


def files_of(arrays: Iterable[np.ndarray[Any, Any]]) -> list[MappedFile]:
    """Return the mapped files that *arrays* lie in, each once, as often as it may have been mapped."""
    found: dict[Hashable, MappedFile] = {}
    base: Any
    # The weights of a file are parts of one array.
    for base in {id(array.base): array.base for array in arrays}.values():
        while True:
            if isinstance(base, np.ndarray):
                base = base.base
            elif isinstance(base, memoryview):
                base = base.obj
            else:
                break
        if isinstance(base, MappedFile):
            found.setdefault(base.version, base)
    return list(found.values())
