"""Runs that are enqueued on a caller's queue and not waited for: device memory in, device memory out, one event."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clgraph.errors import DeviceError, UnsupportedError
from clgraph.network.feed import Feed
from clgraph.network.result import Result
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory
from clgraph.runtime.stream import Step


def engine_of(engines: Mapping[str, object], placements: Iterable[str], batch_slices: int) -> Engine:
    """Return the engine whose queue a whole run can be enqueued on.

    Raises:
        UnsupportedError: It cannot; the message says why, and the way out.
    """
    (first, *others) = [engines.get(p) for p in dict.fromkeys(placements)] or [None]
    if not isinstance(first, Engine) or others:
        raise UnsupportedError("a run is enqueued where one device computes every node: run() it, or place all there")
    if not first.on_callers_queue:
        raise UnsupportedError("a run is enqueued on a queue of the caller's: compile the model with queue=")
    if first.stream.out_of_order:
        raise UnsupportedError("the queue runs commands in any order: give one that keeps theirs, or run()")
    if batch_slices > 1:
        raise UnsupportedError("the batch is computed in slices: compile with split_batch=0, or run()")
    return first


def enqueue(
    engine: Engine,
    feeds: Sequence[tuple[Feed, Memory]],
    steps: Sequence[Step],
    results: Sequence[tuple[Result, Memory | None]],
    wait_for: Sequence[Any],
    held: object,
) -> Any:
    """Enqueue a run; return the event that is over when the run is.

    Args:
        feeds, results: With the memory that each is read from and left in; nothing for a result that nobody wants.
        wait_for: Events that come first.
        held: What must live until the run is over.

    Raises:
        DeviceError: The driver refuses a command; what was enqueued before it is over then.
    """
    stream = engine.stream
    try:
        stream.after(wait_for)
        for result, target in results:
            result.skip() if target is None else result.begin(target, ())
        for feed, memory in feeds:
            feed.write(memory)
        for step in steps:
            step()
        for result, target in results:
            if target is not None:
                result.leave(target)
        event = stream.marker()
        event.set_callback(0, _Holding(held))
        stream.flush()
    except (*engine.failures, DeviceError) as error:  # type: ignore[misc]  # a tuple of classes, whatever it joins
        with contextlib.suppress(DeviceError):
            stream.finish()
        raise DeviceError(f"the run cannot be enqueued: {error}") from error
    finally:
        for result, _ in results:
            result.release()
    return event


class _Holding:
    """A callback of an event that keeps something alive until then."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __call__(self, status: int) -> None:
        """Let go of it: the event is over."""
        self.held = None
