"""The requests of a model in streams, and the bounded queue in which they wait and become batches.

An interrupt of who calls must lock nobody out (:mod:`clgraph.model.run_queue`): what callers and streams share are
queues that C code locks. The lock of who gathers a batch is the streams' alone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from clgraph.errors import ClosedError, QueueFullError
from clgraph.model.delivery import Outputs
from clgraph.model.run_queue import RunFuture
from clgraph.network.cancelling import Cancellation
from clgraph.throughput.batching import MOST_SIDE_BY_SIDE, Batching, Key, full

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array
    from clgraph.model.tensor import Tensor

_LOOK = 0.05
"""Seconds after which who waits for room looks whether the end has come."""
NO_BATCHES = Batching(maximum=1, wait_ms=0)
"""Every request is a run of its own."""


class Request:
    """A call that is queued for a stream.

    Attributes:
        feeds: Arrays of the right types, in the order of the inputs; *outputs*, *tensors* as ``Model.run`` takes them.
        cancellation: What ends it early, its time-out included; ``None`` for nothing.
        future: What the caller waits for.
        key: What it is joined by; ``None`` where it is run alone.
        rows: Its entries, *length* what it had before it is filled up.
        room: What it has of the queue's room: an item, or none.
        sent: When it was sent, in seconds of the monotonic clock.
    """

    __slots__ = ("cancellation", "feeds", "future", "key", "length", "outputs", "room", "rows", "sent", "tensors")

    def __init__(
        self,
        feeds: Mapping[str, Array | Tensor],
        future: RunFuture[dict[str, Any]],
        outputs: Outputs = None,
        *,
        tensors: bool = False,
        cancellation: Cancellation | None = None,
        key: Key | None = None,
        rows: int = 1,
        length: int = 0,
    ) -> None:
        """Take what a call was given; it is sent now."""
        self.feeds, self.future, self.outputs, self.tensors = feeds, future, outputs, tensors
        self.cancellation, self.key, self.rows, self.length = cancellation, key, rows, length
        self.sent, self.room = time.monotonic(), deque[None]()

    def begin(self) -> bool:
        """Mark the request as running and return whether it is still wanted; fails it if its time-out has passed."""
        if not self.future.set_running_or_notify_cancel():
            return False
        try:
            if self.cancellation is not None:
                self.cancellation.check()
        except Exception as error:  # what is raised is the caller's, whatever it is
            self.future.set_exception(error)
            return False
        return True


class RequestQueue:
    """Requests that wait, in the order in which they came, at most so many; streams take them in batches."""

    def __init__(self, size: int, *, shared_out: bool = False) -> None:
        """Hold at most *size* requests that no stream has taken.

        Args:
            shared_out: Streams that have nothing to do, as those of idle cores, get a part each of what waits; not of
                so few requests that to run them at once is worth more.
        """
        self.size, self.closed, self._shared_out = size, False, shared_out
        self._idle: deque[None] = deque()
        self._sent: SimpleQueue[Request | None] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(size):
            self._room.put(None)
        self._passed_over: deque[Request] = deque()
        self._gathering = threading.Lock()
        self._dropped = self.ends = False

    @property
    def waiting(self) -> int:
        """About how many requests wait."""
        return self.size - self._room.qsize()

    def put(self, request: Request, patience: float | None, *, always: bool = False) -> None:
        """Enqueue *request*; waits for room at most *patience* seconds.

        Args:
            always: Take it whether there is room or not, from a thread that makes room itself.

        Raises:
            QueueFullError: There was no room.
            ClosedError: The queue was closed.
            RunTimeoutError, RunCancelledError: The request's own end came first.
        """
        try:
            if not always:
                self._wait_for_room(request, patience)
            self._sent.put(request)
        except BaseException:
            request.future.cancel()
            self._leave(request)
            raise
        # Behind the end of the queue it may be that nobody takes it any more.
        if self.closed and request.future.cancel():
            self._leave(request)
            self.check_open()

    def check_open(self) -> None:
        """Raise ``ClosedError`` where the queue was closed; where the process ends, a daemon thread waits for that."""
        if not self.closed:
            return
        if self.ends and threading.current_thread().daemon:
            threading.Event().wait()
        raise ClosedError("the model was closed: compile or load it again")

    def _wait_for_room(self, request: Request, patience: float | None) -> None:
        cancellation = request.cancellation
        end = None if patience is None else time.monotonic() + patience
        while not self.closed:
            left = _LOOK if end is None else min(_LOOK, end - time.monotonic())
            try:
                # No interrupt comes between the two: room that the queue has no more is the request's.
                request.room.extend(map(self._room.get, (left > 0,), (max(left, 0),)))
            except Empty:
                if cancellation is not None:
                    cancellation.check()
                if left <= 0:
                    waited = "" if not patience else f" after {patience} s"
                    raise QueueFullError(
                        f"{self.size} requests wait{waited}: send it again later, or compile with a larger queue_size, "
                        "or wait longer (queue_timeout)"
                    ) from None
            else:
                return

    def take(self, batching: Batching) -> list[Request] | None:
        """Return the next request with those that join it, all begun; ``None`` once the queue is closed and empty."""
        while True:
            self._idle.append(None)
            idle = time.monotonic()
            with self._gathering:
                self._idle.pop()
                found = self._gather(batching, idle)
            if found is None:
                return None
            for request in found:
                self._leave(request)
                if self._dropped:
                    request.future.cancel()
            if begun := [request for request in found if request.begin()]:
                return begun

    def _gather(self, batching: Batching, idle: float) -> list[Request] | None:
        """Return the oldest request and others of its key: those there are, and those that come soon enough.

        Who waits ends when one comes that does not fit: it is work for another stream. Requests that are older than the
        stream is *idle* wait, too: who was just answered had no chance yet to send the next one.
        """
        first = self._passed_over.popleft() if self._passed_over else self._sent.get()
        if first is None:
            self._sent.put(None)  # for the other streams
            return None
        found, rows, key = [first], first.rows, first.key
        if key is None or rows >= batching.most:
            return found
        for request in list(self._passed_over):
            if request.key == key and rows + request.rows <= batching.most:
                self._passed_over.remove(request)
                found.append(request)
                rows += request.rows
        end = max(first.sent, idle) + batching.wait_ms / 1e3
        while rows < batching.most:
            left = 0.0 if self._passed_over else end - time.monotonic()
            try:
                request_or_end = self._sent.get(timeout=left) if left > 0 else self._sent.get_nowait()
            except Empty:
                break
            if request_or_end is None:
                self._sent.put(None)
                break
            if request_or_end.key == key and rows + request_or_end.rows <= batching.most:
                found.append(request_or_end)
                rows += request_or_end.rows
            else:
                self._passed_over.append(request_or_end)
        if self._shared_out and (idle := len(self._idle)):
            share = max(-(-len(found) // (1 + idle)), MOST_SIDE_BY_SIDE)
            self._passed_over.extendleft(reversed(found[share:]))
            found = found[:share]
            rows = sum(request.rows for request in found)
        return self._even(found, rows)

    def _even(self, found: list[Request], rows: int) -> list[Request]:
        """Return as many of *found* as have a power of two of entries, where each has one; the others go back."""
        if rows != len(found):
            return found
        most = full(rows)
        self._passed_over.extendleft(reversed(found[most:]))
        return found[:most]

    def _leave(self, request: Request) -> None:
        """Give back the room that *request* has; a caller that was interrupted and a stream may both do so."""
        with suppress(IndexError):
            self._room.put(request.room.pop())

    def close(self, *, drain: bool) -> None:
        """Take no more requests; those that wait are served, or cancelled unless *drain*."""
        already, self.closed = self.closed, True
        if not drain:
            self._dropped = True
            with suppress(Empty):
                while True:
                    if (request := self._sent.get_nowait()) is not None:
                        request.future.cancel()
            already = False
        if not already:
            self._sent.put(None)
