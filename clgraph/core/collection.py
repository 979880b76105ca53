"""Holding off Python's search for cyclic garbage where much is made and nearly nothing thrown away."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass


def call_all_old() -> None:
    """Count every object as old: for modules, which live on, and would be searched as young garbage otherwise."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Hold off Python's search for cyclic garbage: a compilation makes many objects, and nearly all of them live on.

    They count as old afterwards, so that the next search for young garbage does not go through all of them.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            _old.take_all()
        gc.enable()


@dataclass
class _OldObjects:
    """Makes objects old. Python does not count those that become so at once, and would never search them again.

    Attributes:
        blocks: Small blocks of memory there were after the last full search. Python knows their number; to count
            objects it goes through all of them.
    """

    blocks: int = 0

    def take_all(self) -> None:
        """Call every object old; search all for garbage when there are a quarter more, which is Python's own rule.

        Compiling leaves no cyclic garbage, but what was young before may hold some of the program around.
        """
        call_all_old()
        if self.blocks and sys.getallocatedblocks() > 1.25 * self.blocks:
            gc.collect()
            call_all_old()
            self.blocks = 0
        self.blocks = self.blocks or sys.getallocatedblocks()


_old = _OldObjects()
