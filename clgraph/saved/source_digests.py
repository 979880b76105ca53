"""Digests of folders of source files: read once, and remembered by the state of the files.

Reading all of clgraph takes 10 ms of a start, looking at the state of its 1,200 files 5 to 6.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from clgraph.core.cache_folder import read, write
from clgraph.core.digests import blake2
from clgraph.handlers import suppressed

SETTLED_SECONDS = 2.0
"""How long files must have been left alone before their state stands for them: longer than any clock of files ticks."""
_SUFFIXES = (".py", ".cl", ".clh", ".json")

_State = tuple[str, int, int, int, int]
"""Of a file: name below the folder, inode, size, times of the content's change and of any."""


def digest_of(folders: Iterable[Path], kept: Path | None = None) -> str:
    """Return a digest of the modules and kernel files in *folders*, each looked at once a process.

    Args:
        kept: A folder, below the cache folder, that remembers the digest for the next process.
    """
    names = tuple(map(str, folders))
    return _of_content(names) if kept is None else _remembered(names, kept)


@functools.cache
def _remembered(folders: tuple[str, ...], kept: Path) -> str:
    state = blake2("".join(map(_state, folders)).encode()).hexdigest()
    # One file for the same folders: sources that change leave none behind.
    path = kept / f"{blake2(repr(folders).encode()).hexdigest()[:32]}.sources"
    with suppressed(OSError, ValueError):
        then, digest = read(path).decode("ascii").split()
        if then == state:
            return digest
    digest = _of_content(folders)
    latest = max((max(times) for folder in folders for _, _, _, *times in _states(folder)), default=0)
    if time.time() - latest * 1e-9 > SETTLED_SECONDS:
        # A folder that cannot be written costs the time of reading, no more.
        with suppressed(OSError):
            write(path, f"{state} {digest}".encode("ascii"))
    return digest


def _of_content(folders: Iterable[str]) -> str:
    return blake2("".join(map(_digest, folders)).encode()).hexdigest()


@functools.cache
def _digest(folder: str) -> str:
    digest = blake2()
    for name, *_ in _states(folder):
        with open(f"{folder}/{name}", "rb") as file:
            content = file.read()
        digest.update(os.fsencode(f"{name} {len(content)}\0"))
        digest.update(content)
    return digest.hexdigest()


@functools.cache
def _state(folder: str) -> str:
    """Return what stands for the states of the files in *folder*: several digests are about the same folders."""
    return blake2(marshal.dumps((folder, _states(folder)))).hexdigest()


@functools.cache
def _states(folder: str) -> tuple[_State, ...]:
    return tuple(sorted(_files(folder)))


def _files(folder: str) -> list[_State]:
    found, folders = [], [""]
    while folders:
        prefix = folders.pop()
        with _opened(f"{folder}/{prefix}") as opened, os.scandir(opened) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith(_SUFFIXES):
                    s = entry.stat()
                    found.append((prefix + name, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns))
                elif name != "__pycache__" and entry.is_dir():
                    folders.append(f"{prefix}{name}/")
    return found


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int | str]:
    """Open *folder*, where the system can list what is open: looking at its files then walks no path, a fifth less."""
    if os.scandir not in os.supports_fd:
        yield folder
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        yield opened
    finally:
        os.close(opened)
