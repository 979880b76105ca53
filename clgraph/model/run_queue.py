"""A queue of runs behind ``Model.run_async``: one thread, a bounded number of calls that wait.

An interrupt (Ctrl-C) may come between any two steps of Python in the main thread, also right behind the step that takes
a lock: ``threading.Condition`` and what is built of it (semaphores, events, executors, the standard futures) then stay
locked for good. Nothing that the worker takes is entered by Python code here.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import weakref
from _thread import RLock
from collections.abc import Callable, Generator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from clgraph.errors import DeadlockError
from clgraph.handlers import suppressed

P = ParamSpec("P")
T = TypeVar("T")

LONGEST = 64
"""Calls that may wait or run; the next one waits until one of them is over."""
LOOK = 0.05
"""Seconds after which somebody who waits looks whether an interrupt has swallowed the news, twice as long each time."""
LOOK_AT_MOST = 1.0
"""Seconds of the longest such wait: where many wait for long, waking them takes the time of who works for them."""


class RunFuture(Future[T]):
    """A future that stays usable when a signal interrupts a thread waiting for it, and that ``asyncio`` can await."""

    def __init__(self, *servers: threading.Thread) -> None:
        """Begin as one whose call waits for *servers*, of which one will make it."""
        super().__init__()
        self._servers = servers
        self._guard = _Guard()
        self._condition = self._guard  # type: ignore[assignment]  # what Future asks of a condition, see there

    @property
    def is_over(self) -> bool:
        """Whether the call has returned, raised or been cancelled."""
        return self._guard.over

    def result(self, timeout: float | None = None) -> T:
        """Return what the call returned; raises as :meth:`concurrent.futures.Future.result`, and as :meth:`wait`."""
        self.wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return what the call raised; raises as :meth:`concurrent.futures.Future.exception`, and as :meth:`wait`."""
        self.wait(timeout)
        return super().exception(0)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the call is over.

        Raises:
            TimeoutError: It is not after *timeout* seconds.
            DeadlockError: There is no *timeout*, and the waiting thread is the one that has to make the call.
        """
        guard = self._guard
        if guard.over:
            return
        if timeout is None and threading.current_thread() in self._servers:
            raise DeadlockError(
                "a done-callback waits for a run that begins only when the callback returns: let it add a callback to "
                "that run's future (add_done_callback), or wait in another thread"
            )
        end, look = None if timeout is None else time.monotonic() + timeout, LOOK
        while not guard.over:
            left = look if end is None else min(look, end - time.monotonic())
            if left <= 0:
                raise TimeoutError
            guard.look(left)
            look = min(2 * look, LOOK_AT_MOST)

    def __await__(self) -> Generator[Any, None, T]:
        """Wait in a coroutine; raises as :meth:`result`."""
        import asyncio

        return asyncio.wrap_future(self).__await__()


class _Guard(RLock):  # type: ignore[misc]  # final in the stubs alone
    """The lock of a future, entered and left by C code. ``Future`` notifies it once: when it is over.

    It does not refer to the future, whose result would wait for Python's collector then.
    """

    def __init__(self) -> None:
        """Begin while the future is not over."""
        self.over = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def notify_all(self) -> None:
        """Let go who waits."""
        if not self.over:
            self.over = True
            self._gate.release()

    def look(self, seconds: float) -> None:
        """Wait until the future is over, or *seconds* have passed."""
        if self._gate.acquire(timeout=seconds):
            self._gate.release()


class RunQueue:
    """Runs calls one after the other in a thread of its own, which is started by the first."""

    def __init__(self, name: str) -> None:
        """Give the thread a *name*."""
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._pending: list[RunFuture[Any]] = []
        self._served: tuple[SimpleQueue[Any], threading.Thread] | None = None
        self._end: Callable[[], object] = _nothing

    def submit(self, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> Future[T]:
        """Return the future of ``call(*args, **options)``; waits while ``LONGEST`` calls are not over.

        A done-callback does not wait: the calls cannot end before it returns.

        Raises:
            RuntimeError: The interpreter is going down.
        """
        # A forked child has neither the thread nor who holds the locks.
        if self._process != os.getpid():
            self._begin()
        while True:
            with self._lock:
                self._pending = [f for f in self._pending if not f.is_over]
                tasks, server = self._served = self._served or self._serving()
                if len(self._pending) < LONGEST or threading.current_thread() is server:
                    future: RunFuture[T] = RunFuture(server)
                    self._pending.append(future)
                    tasks.put((future, functools.partial(call, *args, **options)))
                    return future
                oldest = self._pending[0]
            with suppressed(TimeoutError):
                oldest.wait(LOOK)

    def close(self) -> None:
        """Cancel the waiting calls, and wait for the running one."""
        with self._lock:
            pending, end = self._pending, self._end
            self._pending, self._served, self._end = [], None, _nothing
        for future in pending:
            future.cancel()
        if self._process == os.getpid():
            end()

    def _serving(self) -> tuple[SimpleQueue[Any], threading.Thread]:
        """Return a queue with the thread that serves it, which is started."""
        tasks: SimpleQueue[Any] = SimpleQueue()
        thread = threading.Thread(target=_serve, args=(tasks,), name=self._name, daemon=True)
        thread.start()
        # When the queue is dropped, and before the interpreter ends: what was submitted is done first.
        self._end = weakref.finalize(self, _finish, tasks, thread)
        return tasks, thread


def _serve(tasks: SimpleQueue[Any]) -> None:
    while (task := tasks.get()) is not None:
        _run(*task)
        # What a call has held must not live until the next one.
        del task


def _run(future: RunFuture[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        # The cycle of the exception and this frame's future would keep the model.
        future.set_exception(error)
        del future
    else:
        future.set_result(result)


def _finish(tasks: SimpleQueue[Any], thread: threading.Thread) -> None:
    tasks.put(None)
    # The last that knew of the queue may have been a call of its own.
    if thread is not threading.current_thread():
        thread.join()


def _nothing() -> None:
    """Do nothing: no thread was started."""
