"""Progress of long work, told as log messages: kernel 12 of 85, pass 9 of 31."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from clgraph.core.log import Log

T = TypeVar("T")

LOG = Log(__name__)
"""Where progress is told: that work begins as debug, with the arguments of :func:`tell`, what it came to as info."""


def tell(what: str, number: int, total: int, name: str) -> None:
    """Tell that a piece of work begins: *what* *number* of *total*, which is *name*."""
    LOG.debug("%s %d of %d: %s", what, number, total, name)


def counted(what: str, items: Collection[T], name: Callable[[T], str]) -> Iterator[T]:
    """Yield *items*, and before each tell which of them it is, counted from 1."""
    for number, item in enumerate(items, 1):
        tell(what, number, len(items), name(item))
        yield item
