"""A queue of runs behind ``Model.run_async``: one thread, a bounded number of calls that wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LONGEST = 64
"""Calls that may wait or run; the next one waits until one of them is over."""


class RunQueue:
    """Runs calls one after the other in a thread of its own, which is started by the first."""

    def __init__(self, name: str) -> None:
        """Give the thread a *name*."""
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(LONGEST)
        self._executor: ThreadPoolExecutor | None = None

    def submit(self, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> Future[T]:
        """Return the future of ``call(*args, **options)``; waits while ``LONGEST`` calls are not over.

        Raises:
            RuntimeError: The interpreter is going down.
        """
        # A forked child has neither the thread nor who holds the locks.
        if self._process != os.getpid():
            self._begin()
        room = self._room
        room.acquire()
        try:
            with self._lock:
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(1, self._name)
                future = self._executor.submit(call, *args, **options)
        except BaseException:
            room.release()
            raise
        future.add_done_callback(lambda _: room.release())
        return future

    def close(self) -> None:
        """Cancel what waits, and wait for the call that runs."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None and self._process == os.getpid():
            executor.shutdown(wait=True, cancel_futures=True)
