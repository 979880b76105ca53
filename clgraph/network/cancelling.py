"""Ending a run before it is over: by another thread, or when its time is up."""

from __future__ import annotations

import threading
import time
from _thread import RLock
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from clgraph.errors import InputError, RunCancelledError, RunTimeoutError

if TYPE_CHECKING:
    from clgraph.network.tiles import TileExecutor

LOOK = 0.05
"""Seconds after which who waits for another run looks whether the end has come."""


class Cancellation:
    """Ends the runs that were given it, at the next step: ``Model.run(..., cancellation=it)``.

    What is cancelled stays so until it is renewed: a run that begins later ends at once.
    """

    def __init__(self, seconds: float | None = None, other: Cancellation | None = None) -> None:
        """Take the *seconds* after which a run is over in any case; they begin now.

        Args:
            other: One that ends what this one ends, too.

        Raises:
            InputError: They are no number, or negative.
        """
        if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
            raise InputError(f"a time-out is a number of seconds, or None, not {seconds!r}")
        self.seconds, self.other = seconds, other
        self.end = None if seconds is None else time.monotonic() + seconds
        self._lock = threading.Lock()
        self._running: set[TileExecutor] = set()
        self._wished = False

    def cancel(self) -> None:
        """Cancel the runs that were given it, and return at once; their ``run`` raises :class:`RunCancelledError`."""
        self._wished = True
        self._interrupt()

    def renew(self) -> None:
        """Reset it, so that it can be given to further runs."""
        self._wished = False

    def check(self) -> None:
        """Raise :class:`RunCancelledError` if it is cancelled.

        Raises:
            RunTimeoutError: The time is up.
            RunCancelledError: Another thread has asked for it.
        """
        if self.other is not None:
            self.other.check()
        if self._wished:
            raise RunCancelledError("the run was cancelled; the model can be used again")
        if self.end is not None and time.monotonic() >= self.end:
            raise RunTimeoutError(f"the run was not over after {self.seconds} s; the model can be used again")

    @contextmanager
    def watching(self, executors: Sequence[TileExecutor]) -> Iterator[None]:
        """Interrupt what *executors* have launched, which may be all steps of a model, when the end comes meanwhile.

        Raises as :meth:`check`, where they were interrupted.
        """
        with self._lock:
            self._running.update(executors)
        timer = None
        if self.end is not None:
            left = min(max(self.end - time.monotonic(), 0), threading.TIMEOUT_MAX)
            timer = threading.Timer(left, self._interrupt)
            timer.daemon = True
            timer.start()
        try:
            with nullcontext() if self.other is None else self.other.watching(executors):
                yield
        except RunCancelledError:
            self.check()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            with self._lock:
                self._running.difference_update(executors)
            # An interrupt that came when all was over must not end the next run.
            for executor in executors:
                executor.forget_interrupt()

    def _interrupt(self) -> None:
        with self._lock:
            for executor in self._running:
                executor.interrupt()

    @contextmanager
    def holding(self, lock: RLock) -> Iterator[None]:
        """Hold *lock*, waiting for it no longer than until the end; raises as :meth:`check`."""
        taken = deque[bool](maxlen=1)
        try:
            while True not in taken:
                # No interrupt comes between the two: what is acquired is released.
                taken.extend(map(lock.acquire, (True,), (LOOK,)))
                self.check()
            yield
        finally:
            if True in taken:
                lock.release()


def ending(seconds: float | None, cancellation: Cancellation | None) -> Cancellation | None:
    """Return what ends a run after so many *seconds* and where *cancellation* does; ``None`` where nothing ends it.

    Raises:
        InputError: They are no number, or negative, or the other is no :class:`Cancellation`.
    """
    if not isinstance(cancellation, Cancellation | None):
        raise InputError(f"a cancellation is a Cancellation, or None, not {cancellation!r}; a number is a time-out")
    return cancellation if seconds is None else Cancellation(seconds, cancellation)
