"""What ``clgraph.compile(hint="throughput")`` returns: a model whose requests are served by several streams at once."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Self

import numpy as np

from clgraph.errors import OptionError
from clgraph.graph.fed_indices import check_indices
from clgraph.graph.open_batch import open_batch
from clgraph.graph.signature import Signature
from clgraph.model.delivery import Outputs, as_arrays, wanted_types
from clgraph.model.feeds import arranged, as_given
from clgraph.model.model import Model
from clgraph.model.run_queue import RunFuture
from clgraph.network.cancelling import Cancellation, ending
from clgraph.runtime.process import check_process
from clgraph.throughput.batchable import joinable, length_axes, refusal
from clgraph.throughput.batching import MOST_SIDE_BY_SIDE, Batching, Joinable, Key
from clgraph.throughput.figures import Figures, ThroughputReport
from clgraph.throughput.requests import NO_BATCHES, Request, RequestQueue
from clgraph.throughput.seats import Seat
from clgraph.throughput.serving import RequestStream, Work
from clgraph.throughput.side_by_side import SideBySideModels, side_by_side_models

Compile = Callable[[Seat], Model]
"""Compiles the model for a part of a device."""

LOOK = 0.05
"""Seconds after which who waits for results looks whether the request's end has come."""
KEYS = 4096
"""Shapes of requests that are known to be joined, or not."""


class StreamedModel:
    """A model that serves many requests at once: streams share out the cores, concurrent requests become batches.

    It is called as a :class:`Model` is, from any number of threads. It is a context manager that closes it when all
    that was sent is served.

    Attributes:
        queue_size: Requests that may wait; ``queue_timeout`` is how long one more waits for room, in seconds, ``None``
            for ever.
        streams: What serves the requests.
    """

    def __init__(
        self,
        make: Compile,
        seats: Sequence[Seat],
        *,
        batching: Batching | None = None,
        queue_size: int = 64,
        queue_timeout: float | None = None,
        chosen: str = "",
    ) -> None:
        """Compile by *make* for each of *seats*; a thread for each serves requests.

        Args:
            chosen: Why so many, for the report.

        Raises:
            OptionError: The model's requests cannot be joined, and *batching* asks for that; or a number means nothing.
            ClgraphError: The model cannot be compiled.
        """
        if not isinstance(queue_size, int) or queue_size < 1:
            raise OptionError(f"queue_size={queue_size!r} is not a number of requests")
        self.queue_size, self.queue_timeout, self._chosen = queue_size, queue_timeout, chosen
        self._seats = tuple(seats)
        if batching is not None:
            make = partial(_with_open_batch, make)
        self._model = first = make(seats[0])
        self.topology, self.device = first.topology, first.device
        self._lengths = {} if batching is None else length_axes(first.topology.inputs, batching.pad)
        self._not_joined: dict[Key, str] = {}
        queue = RequestQueue(queue_size, shared_out=first.device.kind == "cpu")
        self._work = Work(queue, batching or NO_BATCHES, {}, Figures(), threading.Lock())
        self._batching = batching
        self._wanted, self._indices = wanted_types(first.inputs), first.topology.indices
        self._fed = [(name, None) for name, _ in self._wanted]
        self.streams = streams = self._streams(make)
        self._threads = tuple(
            threading.Thread(target=s.serve, name=f"clgraph-stream-{i}", daemon=True) for i, s in enumerate(streams)
        )
        self._work.alive = len(streams)
        for thread in self._threads:
            thread.start()
        # When it is dropped, and before the interpreter ends: what was sent is served first.
        self._end = weakref.finalize(self, _finish, self._work, self._threads)

    @property
    def inputs(self) -> tuple[Signature, ...]:
        """Name, element type and shape of every input."""
        return self._model.inputs

    @property
    def outputs(self) -> tuple[Signature, ...]:
        """Name, element type and shape of every output, as :attr:`Model.outputs`."""
        return self._model.outputs

    @property
    def model(self) -> Model:
        """The model of the first stream: to look at, or to ``prepare`` shapes, which the others share."""
        return self._model

    @property
    def throughput(self) -> ThroughputReport:
        """What the streams did so far."""
        return self._work.figures.report(
            [str(s) for s in self._seats], self._chosen, self._told, self._work.queue.waiting, self.queue_size
        )

    def reset_throughput(self) -> None:
        """Let :attr:`throughput` count from now on."""
        self._work.figures.reset()

    def run(
        self,
        *given: Any,
        outputs: Outputs = None,
        tensors: bool = False,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
        queue_timeout: float | None = None,
        **named: Any,
    ) -> dict[str, Any]:
        """Run once and wait for the results; takes and returns what :meth:`Model.run` does.

        Args:
            timeout: Seconds from now until the results have to be there, the time in the queue included.
            queue_timeout: Seconds to wait for room in the queue, in place of :attr:`queue_timeout`; 0 for none.

        Raises:
            QueueFullError: There was no room in the queue.
            RunTimeoutError, RunCancelledError: The request was ended before it was over.
            ClosedError: The model was closed.
            ClgraphError: As :meth:`Model.run`.
        """
        request = self._send(given, named, outputs, tensors, timeout, cancellation, queue_timeout)
        future, end = request.future, request.cancellation
        try:
            if end is None or threading.current_thread() in self._threads:
                future.wait()  # a stream would wait for itself, which the future says
            else:
                while not future.is_over:
                    with suppress(TimeoutError):
                        future.wait(LOOK)
                    if not future.is_over:
                        end.check()
        except BaseException:
            future.cancel()  # what waits is not begun for nobody
            raise
        return future.result(0)

    def submit(
        self,
        *given: Any,
        outputs: Outputs = None,
        tensors: bool = False,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
        queue_timeout: float | None = None,
        **named: Any,
    ) -> RunFuture[dict[str, Any]]:
        """Send a request and return its future, a :class:`concurrent.futures.Future` that ``asyncio`` can await, too.

        It takes what :meth:`run` does. Until it is over, the feeds are not to be changed. What no stream has taken can
        be cancelled (``future.cancel()``); what runs alone, by its *cancellation*; what runs in a batch runs on for the
        others' sake. *timeout* ends a request when a stream would begin it, or between its steps where it runs alone.

        Raises:
            InputError: A feed is missing, unknown, or has the wrong type.
            QueueFullError: There was no room in the queue. With ``queue_timeout=0``, what an event loop calls never
                waits.
            ClosedError: The model was closed.
        """
        return self._send(given, named, outputs, tensors, timeout, cancellation, queue_timeout).future

    run_async = submit

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Run with feeds as :meth:`run` takes them; return the only output, or a tuple of them. Raises as that."""
        feeds = arranged(given, named, self._fed)
        results = tuple(self.run(feeds).values())
        return as_given(results[0] if len(results) == 1 else results, feeds)

    def close(self, *, drain: bool = True) -> None:
        """Take no more requests; serve those that wait, or cancel them unless *drain*; give back the memory."""
        self._work.queue.close(drain=drain)
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close(drain=exception == (None, None, None))

    def __repr__(self) -> str:
        return f"<StreamedModel of {len(self._seats)} streams: {self._model!r}>"

    def _send(
        self,
        given: Sequence[Any],
        named: Mapping[str, Any],
        outputs: Outputs,
        tensors: bool,
        timeout: float | None,
        cancellation: Cancellation | None,
        queue_timeout: float | None,
    ) -> Request:
        check_process()
        self._work.queue.check_open()
        if given and isinstance(given[0], (dict, Mapping)):
            given, (outputs,) = given[:1], (*given[1:], outputs)[:1]
        feeds = arranged(given, named, self._fed)
        overridden = self.topology.overridable.keys() & feeds.keys()
        arrays = feeds if overridden else as_arrays(feeds, self._wanted)
        check_indices(arrays, self._indices)
        # What another thread may end, or what is to lie in the caller's arrays, is no other's.
        into = outputs is not None and isinstance(outputs, Mapping)
        alone = overridden or tensors or into or cancellation is not None
        key, rows, length = (None, 1, 0) if alone or self._batching is None else self._key(arrays)
        request = Request(
            arrays,
            RunFuture(*self._threads),
            outputs,
            tensors=tensors,
            cancellation=ending(timeout, cancellation),
            key=key,
            rows=rows,
            length=length,
        )
        patience = self.queue_timeout if queue_timeout is None else queue_timeout
        self._work.queue.put(request, patience, always=threading.current_thread() in self._threads)
        return request

    def _key(self, arrays: Mapping[str, Any]) -> tuple[Key | None, int, int]:
        """Return by what a request is joined, its entries, and its length before it is filled up."""
        batching, length = self._work.batching, 0
        rows: tuple[int, ...] | None = None
        parts = []
        for name, array in arrays.items():
            if type(array) is not np.ndarray or rows not in (None, array.shape[:1]):
                return None, 1, 0
            shape = array.shape
            rows = shape[:1]
            if (axis := self._lengths.get(name)) is not None and axis < len(shape):
                if length not in (0, shape[axis]):
                    return None, 1, 0
                length = shape[axis]
                shape = (*shape[:axis], batching.rounded(length), *shape[axis + 1 :])
            parts.append((array.dtype.str, shape[1:]))
        key = tuple(parts)
        if not rows or not 0 < rows[0] <= batching.most or not self._is_joined(key):
            return None, 1, 0
        return key, rows[0], length

    def _is_joined(self, key: Key) -> bool:
        """Whether requests of *key* are joined, which the graph decides when the first comes."""
        known = self._work.joinable
        if key not in known and key not in self._not_joined:
            if len(known) + len(self._not_joined) >= KEYS:
                return False
            found = joinable(self.topology, key, self._work.batching, self._lengths)
            if isinstance(found, Joinable):
                known[key] = found
            else:
                self._not_joined[key] = found
        return key in known

    @property
    def _told(self) -> str:
        """What there is to say about batches."""
        if self._batching is None:
            return "off"
        told = f"at most {self._batching.most} entries, {self._batching.wait_ms:g} ms"
        if self._batching.pad:
            told += f", lengths filled up to multiples of {self._batching.step}"
        if any(stream.side_by_side is not None for stream in self.streams):
            told += f", single ones side by side, {min(self._batching.most, MOST_SIDE_BY_SIDE)} in a run"
        refused = dict.fromkeys(s.not_side_by_side for s in self.streams if s.not_side_by_side)
        whys = [f"not side by side: {why}" for why in refused]
        whys += [f"not joined: {why}" for why in dict.fromkeys(self._not_joined.values())]
        return "; ".join([told, *whys])

    def _streams(self, make: Compile) -> tuple[RequestStream, ...]:
        """Return the streams: clones where they have the same part of a device, which share weights and kernels."""
        made = {self._seats[0]: (self._model, self._side_by_side(self._model))}
        found = []
        for number, seat in enumerate(self._seats):
            if seat in made:
                model, side_by_side = made[seat]
                model = model.clone() if number else model
            else:
                model = make(seat)
                made[seat] = model, side_by_side = model, self._side_by_side(model)
            found.append(RequestStream(f"stream {number} on {seat}", model, self._work, side_by_side))
        return tuple(found)

    def _side_by_side(self, model: Model) -> SideBySideModels | None:
        """Return what runs requests of *model* side by side; ``None`` where their batches are joined."""
        return None if self._batching is None else side_by_side_models(model, self._batching.most)


def _with_open_batch(make: Compile, seat: Seat) -> Model:
    """Return what *make* makes with an open batch; raises ``OptionError`` where its requests cannot be joined."""
    model = make(seat)
    if why := refusal(model.topology):
        model.close()
        raise OptionError(f"requests of the model cannot be joined: {why}; leave batching out")
    if not (shapes := open_batch(model.topology)):
        return model
    with model:
        return model.reshape(shapes)


def _finish(work: Work, threads: Sequence[threading.Thread]) -> None:
    """Serve what waits, and wait for the streams; the last that knew of the model may have been a request of one."""
    work.queue.ends = not work.queue.closed  # nobody has closed it
    work.queue.close(drain=True)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join()
