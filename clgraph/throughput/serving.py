"""Streams: take requests in batches, run them, and set the result or exception of each request's future."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import field
from typing import Any, cast

from clgraph.core.frozen import mutable
from clgraph.core.log import Log
from clgraph.errors import ClgraphError, DeviceError, DeviceMemoryError
from clgraph.graph.primitive import Array
from clgraph.model.model import Model
from clgraph.throughput.batching import MOST_SIDE_BY_SIDE, Batching, Joinable, cut, full, join
from clgraph.throughput.figures import Figures
from clgraph.throughput.requests import Request, RequestQueue
from clgraph.throughput.side_by_side import SideBySideModels, feeds_of

_log = Log(__name__)


@mutable
class Work:
    """State that streams share. It holds no reference to the model, which may be dropped while they wait.

    Attributes:
        joinable: How requests of each key that has one are joined.
        alive: Streams that take requests.
    """

    queue: RequestQueue
    batching: Batching
    joinable: dict[Any, Joinable]
    figures: Figures
    lock: threading.Lock
    alive: int = 0


@mutable
class RequestStream:
    """Serves requests in a thread of its own, by a model or a clone of it.

    Attributes:
        side_by_side: Models that run requests of one entry side by side; ``None`` where their batches are joined.
        not_side_by_side: Why such a model could not be made; empty if none failed.
    """

    name: str
    model: Model
    work: Work
    side_by_side: SideBySideModels | None = None
    not_side_by_side: str = ""
    _several: dict[int, Model] = field(default_factory=dict)

    def serve(self) -> None:
        """Serve requests until the queue is closed and empty, or the device is lost and others are left."""
        work = self.work
        while (batch := work.queue.take(work.batching)) is not None:
            if self._answer(batch) and not self._renewed():
                break
            # What a request has held must not live until the next one.
            del batch
        for model in (self.model, *self._several.values()):
            model.close()

    def _answer(self, batch: Sequence[Request]) -> bool:
        """Run a *batch* and answer each of its requests; say whether the device failed."""
        begun = time.monotonic()
        results: list[dict[str, Any] | BaseException]
        try:
            results = list(self._run(batch))
        except BaseException as error:
            # Who is to blame is known when each is run alone.
            results = [error] if len(batch) == 1 else [self._alone(request) for request in batch]
        failures = [r for r in results if isinstance(r, BaseException)]
        rows = sum(request.rows for request in batch)
        self.work.figures.served([r.sent for r in batch], begun, rows, len(failures))
        for request, result in zip(batch, results, strict=True):
            if isinstance(result, BaseException):
                request.future.set_exception(result)
            else:
                request.future.set_result(result)
        return any(isinstance(f, DeviceError) and not isinstance(f, DeviceMemoryError) for f in failures)

    def _alone(self, request: Request) -> dict[str, Any] | BaseException:
        try:
            return self._run([request])[0]
        except BaseException as error:
            return error

    def _run(self, batch: Sequence[Request]) -> Sequence[dict[str, Any]]:
        """Return the results of each request of a *batch*; raises as ``Model.run``."""
        first = batch[0]
        if len(batch) == 1:
            return [
                self.model.run(
                    first.feeds, outputs=first.outputs, tensors=first.tensors, cancellation=first.cancellation
                )
            ]
        assert first.key is not None
        how = self.work.joinable[first.key]
        if len(batch) == sum(request.rows for request in batch):
            # A batch is no power of two where requests of it were cancelled.
            count = full(min(len(batch), MOST_SIDE_BY_SIDE))
            if self._has_side_by_side(count):
                rest = batch[count:]
                return [*self._run_side_by_side(batch[:count], how), *(self._run(rest) if rest else ())]
        feeds = join([cast("dict[str, Array]", r.feeds) for r in batch], first.key, self.work.batching, how)
        return _wanted(batch, self.model.run(feeds), how)

    def _run_side_by_side(self, batch: Sequence[Request], how: Joinable) -> Sequence[dict[str, Any]]:
        """Return the results of each request of a *batch*, all of which are run side by side."""
        feeds = feeds_of([cast("dict[str, Array]", r.feeds) for r in batch])
        return _wanted(batch, self._several[len(batch)].run(feeds), how)

    def _has_side_by_side(self, count: int) -> bool:
        """Say whether there is a model of *count* requests side by side, made when the first such batch comes."""
        if self.side_by_side is not None and count not in self._several:
            try:
                self._several[count] = self.side_by_side.model(count)
            except ClgraphError as error:
                self.side_by_side, self.not_side_by_side = None, str(error)
                _log.warning("%s joins its batches, requests are not run side by side: %s", self.name, error)
        return self.side_by_side is not None

    def _renewed(self) -> bool:
        """Take a fresh clone after the device has failed; say whether the stream goes on: with it, or as the last."""
        try:
            self.model = self.model.clone()
            self._several.clear()
        except ClgraphError as error:
            with self.work.lock:
                if self.work.alive == 1:
                    return True
                self.work.alive -= 1
            _log.warning("%s is given up: %s", self.name, error)
            self.work.figures.gave_up(f"{self.name}: {error}")
            return False
        return True


def _wanted(batch: Sequence[Request], results: dict[str, Array], how: Joinable) -> list[dict[str, Any]]:
    """Return of the *results* of a *batch* what each request wants of its own."""
    own = cut(results, [r.rows for r in batch], [r.length for r in batch], how)
    return [
        found if r.outputs is None else {name: found[name] for name in r.outputs}
        for r, found in zip(batch, own, strict=True)
    ]
