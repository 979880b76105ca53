"""What the server does, whichever protocol it is asked by: it runs calls within limits, and says what it has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import TypeVar

from clgraph.core.version import __version__
from clgraph.errors import ClgraphError, NotReadyError, RunTimeoutError
from clgraph.serving.calls import Answer, Call
from clgraph.serving.logs import detail, event, fault
from clgraph.serving.metrics import Metrics
from clgraph.serving.options import ServerOptions
from clgraph.serving.repository import Repository
from clgraph.serving.served_model import Pending, ServedModel
from clgraph.serving.statuses import FAULT, status_of

T = TypeVar("T")

ENDING = "the server is shutting down and takes no more calls"
_NOW = 0.0
"""In the event loop's time: no limit is there by itself."""

NAME, VERSION = "clgraph", __version__
EXTENSIONS = ("binary_tensor_data", "model_repository")
PLATFORM = "onnx_clgraph"


class Service:
    """The models and the limits. Its methods are called in one event loop.

    Attributes:
        ready: Whether all models were looked at once, and the server does not end.
    """

    def __init__(self, options: ServerOptions, repository: Repository) -> None:
        """Take the models and the limits."""
        self.options, self.repository = options, repository
        self.metrics = Metrics(repository)
        self.ready, self._ending, self._running = False, False, 0
        self._messages, self._runs = set[asyncio.Timeout](), set[asyncio.Timeout]()
        self._idle = asyncio.Event()
        self._idle.set()

    async def infer(self, call: Call) -> Answer:
        """Run a call.

        Raises:
            NotReadyError: The server ends, or the model cannot be run.
            RunTimeoutError: It took longer than it may.
            ClgraphError: As :meth:`ServedModel.submit` and :meth:`clgraph.Model.run` raise.
        """
        if self._ending:
            raise NotReadyError(ENDING)
        model = self.repository.get(call.model, call.version)
        version, since = str(model.version), monotonic()
        seconds = model.seconds if call.seconds is None else min(call.seconds, model.seconds)
        self._running += 1
        self._idle.clear()
        pending = None
        try:
            async with asyncio.timeout(seconds) as limit:
                with _among(self._runs, limit):
                    pending = model.submit_loaded(call.feeds, call.outputs) or await _elsewhere(model, call)
                    results = await asyncio.wrap_future(pending.future)
        except TimeoutError as error:
            if limit.when() == _NOW:
                raise NotReadyError("the server has shut down before the call was over") from error
            raise RunTimeoutError(f"the call of model {call.model!r} was not over after {seconds:g} s") from error
        finally:
            if pending is not None:
                pending.cancel()
            self._running -= 1
            if not self._running:
                self._idle.set()
        self.metrics.ran(call.model, version, monotonic() - since, call.feeds)
        return Answer(call.model, version, call.id, results)

    async def received(self, message: Awaitable[T]) -> T:
        """Wait for a *message* of a client; raises ``NotReadyError`` where the server ends before it has come."""
        try:
            async with asyncio.timeout(None) as limit:
                with _among(self._messages, limit):
                    return await message
        except TimeoutError as error:
            raise NotReadyError(ENDING) from error

    async def load(self, name: str) -> None:
        """Load a model; raises as :meth:`Repository.load`."""
        await self._changing(partial(self.repository.load, name))

    async def unload(self, name: str) -> None:
        """Unload a model; raises as :meth:`Repository.unload`."""
        await self._changing(partial(self.repository.unload, name))

    async def _changing(self, change: Callable[[], T]) -> T:
        if self._ending:
            raise NotReadyError("the server ends: it loads and unloads nothing more")
        return await asyncio.to_thread(change)

    def is_ready(self, name: str, version: str = "") -> bool:
        """Whether calls of a model are taken; raises ``UnknownModelError`` where there is none."""
        return not self._ending and any(entry.model is not None for entry in self.repository.entries(name, version))

    def told(self, protocol: str, what: str, error: BaseException | None, since: float, **about: str) -> None:
        """Log and count that a client was answered.

        Args:
            what: Was asked for; ``infer`` is counted.
            error: What the answer tells; ``None`` where all went well.
            since: When the request came.
            about: ``model``, ``version`` and ``id``, as far as they are known.
        """
        status = 200 if error is None else status_of(error).http
        if error is not None and status == FAULT.http:
            fault(what, error, protocol=protocol, **about)
        if what == "infer":
            asked = about.get("model", ""), about.get("version", "")
            self.metrics.answered(*(asked if self.repository.has(*asked) else ("", "")), protocol, status)
        milliseconds = round((monotonic() - since) * 1e3, 2)
        why = {} if error is None else {"text": str(error)}
        detail(what, protocol=protocol, status=status, ms=milliseconds, **about, **why)

    async def watch(self) -> None:
        """Load what is in the folder, and look at it from time to time, until cancelled."""
        await asyncio.to_thread(self.repository.refresh, settled=False)
        self.ready = True
        event("ready", models=sum(1 for _ in self.repository))
        while self.options.poll:
            await asyncio.sleep(self.options.poll)
            try:
                await asyncio.to_thread(self.repository.refresh)
            except ClgraphError as error:
                fault("look", error, folder=self.options.folder)

    async def drain(self) -> None:
        """Take no more calls, and wait until those that run are over, no longer than the grace.

        Who still sends a message then, or waits for a run, is told that the server ends.
        """
        self._ending, self.ready = True, False
        self.repository.end()
        try:
            async with asyncio.timeout(self.options.grace):
                await self._idle.wait()
        except TimeoutError:
            event("give_up", running=self._running, grace=self.options.grace)
            _end(self._runs)
        _end(self._messages)


@contextmanager
def _among(limits: set[asyncio.Timeout], limit: asyncio.Timeout) -> Iterator[None]:
    """Have *limit* among others in the block."""
    limits.add(limit)
    try:
        yield
    finally:
        limits.discard(limit)


def _end(limits: set[asyncio.Timeout]) -> None:
    """Let *limits* be over, those that are not yet."""
    for limit in limits:
        if not limit.expired():
            limit.reschedule(_NOW)


async def _elsewhere(model: ServedModel, call: Call) -> Pending:
    """Take a call of a model that was evicted, which a thread loads; where nobody waits any more, it is not run."""
    sending = asyncio.ensure_future(asyncio.to_thread(model.submit, call.feeds, call.outputs))
    try:
        return await asyncio.shield(sending)
    except asyncio.CancelledError:
        sending.add_done_callback(_taken_back)
        raise


def _taken_back(sending: asyncio.Future[Pending]) -> None:
    if not sending.cancelled() and sending.exception() is None:
        sending.result().cancel()
