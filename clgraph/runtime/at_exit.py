"""The end of the interpreter waits for threads that are inside a driver, and lets none in afterwards.

Python ends daemon threads where they next acquire its lock. One that comes back from pyopencl's C++ then is unwound
through frames that allow no exception, and the process aborts (CPython before 3.14).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import ContextDecorator
from types import TracebackType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Here(threading.local):
    """What a thread knows of itself: whether it is a daemon, and how many gates it is behind."""

    def __init__(self) -> None:
        self.daemon, self.depth = threading.current_thread().daemon, 0


class DriverGate(ContextDecorator):
    """``with gate:``, or ``@gate``, around whatever may be inside a driver when the interpreter ends.

    Threads that are no daemons are over when the gate closes, the main thread closes it. So nothing in here can be
    interrupted by Ctrl-C, which comes in the main thread.

    Attributes:
        here: What the calling thread knows of itself; one that is no daemon passes the gate without being seen.
    """

    def __init__(self) -> None:
        """Begin open."""
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        # A forked child has none of the threads.
        self._closed = False
        self._inside: dict[int, threading.Lock] = {}
        self.here = _Here()

    def __enter__(self) -> None:
        here = self.here
        if not here.daemon:
            return
        here.depth += 1
        if here.depth > 1:
            return
        held = threading.Lock()
        held.acquire()
        # Entered before the look: whoever closes the gate either waits for this thread or is seen by it.
        self._inside[threading.get_ident()] = held
        if self._closed:
            held.release()
            threading.Event().wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        here = self.here
        if not here.daemon:
            return
        here.depth -= 1
        if not here.depth:
            self._inside.pop(threading.get_ident()).release()

    def call(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what *function* returns, called behind the gate."""
        with self:
            return function(*args, **named)

    def close(self) -> None:
        """Wait until the threads inside have left; those that come later wait for the end of the process."""
        self._closed = True
        for held in tuple(self._inside.values()):
            held.acquire()


GATE = DriverGate()

# Finalizers run last in, first out: what was given to ``run_async`` is done before.
weakref.finalize(GATE, GATE.close)
