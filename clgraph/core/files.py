"""Files that are written at once or not at all: under a name of their own, then renamed.

A reader, in another process or on another machine with the same folder, finds the old file or the whole new one, and
what is cut short by a full disk or an end of the process leaves the old one. No lock is taken, so that none can hang
(:mod:`clgraph.core.turns` has one, whose wait ends).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from clgraph.handlers import suppressed

PARTIAL = ".clgraph-"
"""How the name of a file begins that is being written; it ends in letters of chance, not in the number of a process,
which another machine has as well."""

NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags that open a file and nothing that stands for one: no link, and no pipe that somebody waits at."""

_PRIVATE, _PUBLIC = 0o600, 0o666


@contextlib.contextmanager
def replacing(path: Path, mode: int = _PRIVATE) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of *path* once the block ends well; a link there is replaced, not followed.

    Args:
        mode: Who may read it; the umask takes from that.

    Raises:
        OSError: It cannot be written, or not be put there; what was there stays.
    """
    temporary = partial(path)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS, mode)
    try:
        with open(handle, "wb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        with suppressed(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def output(path: Path) -> Iterator[BinaryIO]:
    """Open a file that the user named, to be written at once or not at all.

    A link is followed: it is the user's. What is no regular file, as a pipe or ``/dev/null``, is written to as it is.

    Raises:
        OSError: It cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        regular = stat.S_ISREG(os.stat(target).st_mode)
    except FileNotFoundError:
        regular = True
    with replacing(target, _PUBLIC) if regular else target.open("wb") as file:
        yield file


def partial(path: Path) -> Path:
    """Return a name beside *path* that nothing has."""
    return path.with_name(f"{PARTIAL}{os.urandom(8).hex()}")
