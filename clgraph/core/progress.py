"""Progress of long work, told as log messages: kernel 12 of 85, pass 9 of 31, 35 s so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

from clgraph.core.log import INFO, WARNING, Log

T = TypeVar("T")

LOG = Log(__name__)
"""Where progress is told: that work begins as debug, with the arguments of :func:`tell`, what it came to as info."""

PATIENCE_SECONDS, AGAIN_SECONDS = 5.0, 30.0
"""How long work may be silent: where nobody hears what is told as info, and between two messages about it."""


@contextmanager
def lasting(log: Log, message: str, *args: object) -> Iterator[None]:
    """Tell by *log*, while the block runs for long, that this is so, and for how many seconds.

    As info where somebody hears that, else as a warning, which Python shows unasked: a script or a notebook that waits
    for a compiler says why.

    Args:
        message: What is going on, with *args* put into it as ``%`` does.
    """
    over, begun = threading.Event(), time.monotonic()

    def watch() -> None:
        pause = AGAIN_SECONDS if log.shows(INFO) else PATIENCE_SECONDS
        while not over.wait(pause):
            level = INFO if log.shows(INFO) else WARNING
            log.say(level, f"{message}: %d s so far", *args, round(time.monotonic() - begun))
            pause = AGAIN_SECONDS

    watcher = threading.Thread(target=watch, name="clgraph-lasting", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def tell(what: str, number: int, total: int, name: str) -> None:
    """Tell that a piece of work begins: *what* *number* of *total*, which is *name*."""
    LOG.debug("%s %d of %d: %s", what, number, total, name)


def counted(what: str, items: Collection[T], name: Callable[[T], str]) -> Iterator[T]:
    """Yield *items*, and before each tell which of them it is, counted from 1."""
    for number, item in enumerate(items, 1):
        tell(what, number, len(items), name(item))
        yield item
