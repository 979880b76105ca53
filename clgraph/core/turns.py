"""A lock among processes: one does the work, such as compiling a library, while the others wait for the result."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from clgraph.core.files import NO_LINKS
from clgraph.handlers import pass_on

try:
    import fcntl
except ImportError:  # Windows: everybody does it for himself
    fcntl = None  # type: ignore[assignment]  # typed for the systems that have it

LOOK_SECONDS = 0.05
_PRIVATE = 0o600


@contextlib.contextmanager
def in_turn(path: Path, seconds: float) -> Iterator[None]:
    """Run the block while no other process runs one of the same *path*.

    The operating system ends a turn with its process, and nobody waits longer than *seconds*: what is done then is done
    twice. The same where no such file can be made, or its file system knows no locks. The file stays: one that was
    removed would no longer be the one that others wait at.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINKS, _PRIVATE)
    except OSError as error:
        pass_on(error)
        yield
        return
    try:
        _wait(handle, time.monotonic() + seconds)
        yield
    finally:
        os.close(handle)


def _wait(handle: int, until: float) -> None:
    """Return when this process has the lock of *handle*, at the time *until*, or where there are no locks."""
    while fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return
            time.sleep(LOOK_SECONDS)
        except OSError as error:
            pass_on(error)
            return
        else:
            return
