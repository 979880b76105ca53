"""Python's collector of cyclic garbage, which waits while much is made that no cycle holds.

Binding a member makes some thousand objects within milliseconds, compiling a program some ten thousand. The collector
would walk through them several times, count those that are there for the moment as long-lived, and by that walk through
all that a process has ten times as often: that takes 11 to 14 % of a binding, 6 to 12 % of a start that compiles and 5
to 6 % of one out of the model cache (Xeon, an encoder and a network of convolutions). They go when the last reference
does.
"""

from __future__ import annotations

import gc
import threading
from contextlib import ContextDecorator
from types import TracebackType

PYTHONS = 1000
"""More objects than Python keeps from the collector by itself: 3.12 some 375, others none."""


class _Pause(ContextDecorator):
    """A context or decorator: the collector does not start in it, whichever of several threads leaves it last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._resume = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._resume = gc.isenabled()
                gc.disable()
            self._users += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and self._resume:
                gc.enable()


def count_as_lasting() -> None:
    """Count all that there is as long-lived, as it would be if collections had met it, without a walk through it.

    For the few times that a process imports or compiles what stays: cycles that are let go before wait for the next
    full collection, whose turn begins anew. Does nothing where the process keeps objects from the collector for itself.
    """
    if gc.get_freeze_count() < PYTHONS:
        gc.freeze()
        gc.unfreeze()


PAUSED = _Pause()
"""``with PAUSED:``, ``@PAUSED``: for a compilation at most, because what other threads leave in cycles waits too."""
