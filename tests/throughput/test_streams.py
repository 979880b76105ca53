"""Streams and their queue: results, bounds, time-outs, failures, the end."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_all
from typing import Any

import numpy as np
import pytest

import clgraph
from clgraph.errors import (
    ClosedError,
    DeadlockError,
    DeviceError,
    InputError,
    OptionError,
    QueueFullError,
    RunCancelledError,
    RunTimeoutError,
)
from clgraph.graph.topology import Topology
from clgraph.model import run_queue
from clgraph.model.model import Model
from clgraph.model.run_queue import RunFuture
from clgraph.ops.activation import Activation
from clgraph.runtime.device import find_device
from clgraph.throughput.batching import Batching
from clgraph.throughput.requests import Request, RequestQueue
from clgraph.throughput.seats import Seat, seats
from clgraph.throughput.streamed_model import StreamedModel
from tests.support.models import image, small_model


def relu() -> Topology:
    """Return y = max(x, 0) for any number of rows of four."""
    topology = Topology()
    topology.output(topology.add("y", Activation("relu"), topology.input("x", ("batch", 4))))
    return topology


def rows(count: int, start: int = -2) -> dict[str, Any]:
    return {"x": np.arange(start, start + 4 * count, dtype=np.float32).reshape(count, 4)}


class Valve:
    """Takes the place of ``Model.run``: holds runs until it is opened, and notes what they were fed."""

    def __init__(self) -> None:
        self.run: Callable[..., Any] = Model.run
        self.open, self.reached = threading.Event(), threading.Semaphore(0)
        self.entries: list[int] = []
        self.open.set()

    def __call__(self, model: Model, feeds: dict[str, Any], **options: Any) -> dict[str, Any]:
        self.entries.append(len(feeds["x"]))
        self.reached.release()
        assert self.open.wait(30)
        return self.run(model, feeds, **options)


@pytest.fixture
def valve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Valve]:
    found = Valve()
    monkeypatch.setattr(Model, "run", lambda model, *given, **options: found(model, *given, **options))
    yield found
    found.open.set()


def streamed(streams: int = 1, **options: Any) -> StreamedModel:
    return clgraph.compile(relu(), device="host", hint="throughput", streams=streams, **options)


def held(model: StreamedModel, valve: Valve) -> Any:
    """Let a stream begin a request that ends when *valve* is opened, and return its future."""
    valve.open.clear()
    future = model.submit(rows(1))
    assert valve.reached.acquire(timeout=30)
    return future


@pytest.mark.parametrize("where", ["host", pytest.param("pocl", marks=pytest.mark.opencl)])
def test_many_callers_get_the_results_of_one_model(where: str) -> None:
    one = clgraph.compile(small_model(), device=where, threads=1 if where == "pocl" else None)
    arrays = [image((1, 3, 10, 10), i) for i in range(12)]
    wanted = [one(x) for x in arrays]
    many = clgraph.compile(
        small_model(), device=where, threads=2 if where == "pocl" else None, hint="throughput", streams=2
    )
    with many, ThreadPoolExecutor(6) as pool:
        assert [s.name for s in many.inputs] == ["x"]
        assert [s.name for s in many.outputs] == ["y"]
        for want, got, future in zip(wanted, pool.map(many, arrays), [many.submit(x=x) for x in arrays], strict=True):
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(future.result(30)["y"], want)
        place = np.empty_like(wanted[0])
        assert many.run({"x": arrays[0]}, {"y": place})["y"] is place
        np.testing.assert_array_equal(place, wanted[0])
        told = many.throughput
        assert (told.requests, told.failed, told.batches, len(told.streams)) == (25, 0, {1: 25}, 2)
        assert 0 < told.p50 <= told.p99
        assert "25 (0 failed)" in str(told)
    one.close()


@pytest.mark.opencl
def test_streams_share_weights_and_kernels() -> None:
    if find_device("pocl").info.workers < 2:
        pytest.skip("one core is not shared out")
    with clgraph.compile(small_model(), device="pocl", threads=2, hint="throughput", streams=2) as many:
        x = image((1, 3, 10, 10))
        wait_for_all([many.submit(x=x) for _ in range(4)])
        one, other = (s.model for s in many.streams)
        (first,), (second,) = one.compiled.values(), other.compiled.values()
        assert first.program is second.program
        assert one is not other


def test_coroutines_await_requests() -> None:
    async def ask(model: StreamedModel) -> list[Any]:
        return [results["y"] for results in await asyncio.gather(*(model.submit(rows(n + 1)) for n in range(3)))]

    with streamed(2) as model:
        for n, y in enumerate(asyncio.run(ask(model))):
            np.testing.assert_array_equal(y, np.maximum(rows(n + 1)["x"], 0))


def test_a_full_queue_refuses_or_lets_wait(valve: Valve) -> None:
    with streamed(queue_size=2) as model:
        running = held(model, valve)
        waiting = [model.submit(rows(1)) for _ in range(2)]
        assert model.throughput.waiting == 2
        for call in (model.submit, model.run):
            with pytest.raises(QueueFullError, match="2 requests wait"):
                call(rows(1), queue_timeout=0)
            with pytest.raises(QueueFullError, match=r"after 0\.01 s"):
                call(rows(1), queue_timeout=0.01)
        late = threading.Thread(target=lambda: waiting.append(model.submit(rows(1))))
        late.start()
        late.join(0.05)
        assert late.is_alive()
        valve.open.set()
        late.join(30)
        assert len([f.result(30) for f in (running, *waiting)]) == 4
        assert model.throughput.waiting == 0


def test_what_waits_can_be_cancelled_and_makes_room(valve: Valve) -> None:
    with streamed(queue_size=1) as model:
        running = held(model, valve)
        waiting = model.submit(rows(1))
        assert waiting.cancel()
        assert not running.cancel()
        valve.open.set()
        with pytest.raises(CancelledError):
            waiting.result(30)
        assert model.run(rows(2))["y"].shape == (2, 4)
        assert valve.entries == [1, 2]


def test_time_outs_and_cancellations_count_the_time_in_the_queue(valve: Valve) -> None:
    with streamed() as model:
        running, ended = held(model, valve), clgraph.Cancellation()
        with pytest.raises(RunTimeoutError):
            model.run(rows(2), timeout=0.02)
        late, wished = model.submit(rows(3), timeout=0.01), model.submit(rows(4), cancellation=ended)
        ended.cancel()
        time.sleep(0.02)
        valve.open.set()
        running.result(30)
        with pytest.raises(RunTimeoutError):
            late.result(30)
        with pytest.raises(RunCancelledError):
            wished.result(30)
        assert model.run(rows(5), timeout=30)["y"].shape == (5, 4)
        assert valve.entries == [1, 5]


def test_a_failure_reaches_its_request_alone() -> None:
    with streamed(2) as model:
        with pytest.raises(InputError, match="missing"):
            model.submit({})
        wrong, right = model.submit({"x": np.zeros((1, 5), np.float32)}), model.submit(rows(1))
        with pytest.raises(InputError, match="does not fit"):
            wrong.result(30)
        np.testing.assert_array_equal(right.result(30)["y"], np.maximum(rows(1)["x"], 0))
        assert model.throughput.failed == 1


def test_a_stream_whose_device_fails_goes_on_with_a_clone_or_leaves_its_work_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken: set[Model] = set()
    run = Model.run

    def fail(model: Model, *given: Any, **options: Any) -> Any:
        if model in broken:
            raise DeviceError("lost")
        return run(model, *given, **options)

    monkeypatch.setattr(Model, "run", fail)
    with streamed(2) as model:
        broken.update(s.model for s in model.streams)
        assert failures(model, 10) <= 2, "each stream has failed once"
        assert not model.throughput.broken

        def no_clone(_: Model) -> Model:
            raise DeviceError("no context")

        monkeypatch.setattr(Model, "clone", no_clone)
        while not model.throughput.broken:
            broken.update(s.model for s in model.streams)
            failures(model, 1)
        assert "no context" in model.throughput.broken[0]
        assert failures(model, 5) == 5, "the last one goes on"
        broken.clear()
        assert failures(model, 5) == 0
        assert len(model.throughput.broken) == 1


def failures(model: StreamedModel, runs: int) -> int:
    """Return how many of *runs* raise that the device is lost."""
    found = 0
    for _ in range(runs):
        error = model.submit(rows(1)).exception(30)
        assert error is None or str(error) == "lost"
        found += error is not None
    return found


def test_a_done_callback_may_send_to_a_full_queue_and_must_not_wait(valve: Valve) -> None:
    told: list[Any] = []
    done = threading.Event()

    def more(_: Any) -> None:
        with pytest.raises(DeadlockError):
            model.run(rows(1))
        told.extend(model.submit(rows(n)) for n in (2, 3))
        done.set()

    with streamed(queue_size=1) as model:
        running = held(model, valve)
        waiting = model.submit(rows(1))
        running.add_done_callback(more)
        valve.open.set()
        assert done.wait(30)
        assert [len(f.result(30)["y"]) for f in (waiting, *told)] == [1, 2, 3]


@pytest.mark.parametrize("drain", [True, False])
def test_closing_serves_or_drops_what_waits(valve: Valve, *, drain: bool) -> None:
    model = streamed(queue_size=4)
    running = held(model, valve)
    waiting = [model.submit(rows(n)) for n in (2, 3)]
    closing = threading.Thread(target=lambda: model.close(drain=drain))
    closing.start()
    while not model._work.queue.closed:
        closing.join(0.001)
    with pytest.raises(ClosedError):
        model.run(rows(1))
    valve.open.set()
    closing.join(30)
    assert running.result(0)["y"].shape == (1, 4)
    if drain:
        assert [f.result(0)["y"].shape for f in waiting] == [(2, 4), (3, 4)]
    else:
        assert all(f.cancelled() for f in waiting)
    model.close()


def test_who_waits_for_room_is_told_that_the_model_was_closed(valve: Valve) -> None:
    model = streamed(queue_size=1)
    held(model, valve)
    model.submit(rows(1))
    told: list[Exception] = []

    def send() -> None:
        try:
            model.submit(rows(1))
        except ClosedError as error:
            told.append(error)

    late = threading.Thread(target=send)
    late.start()
    closing = threading.Thread(target=model.close)
    closing.start()
    late.join(30)
    assert len(told) == 1
    valve.open.set()
    closing.join(30)
    assert not closing.is_alive()


def test_a_model_that_is_dropped_ends_its_threads() -> None:
    model = streamed(2)
    model.run(rows(1))
    threads, dropped = model._threads, weakref.ref(model)
    del model
    gc.collect()
    assert dropped() is None
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.opencl
def test_cores_are_shared_out() -> None:
    assert seats("host", None, 2) == [Seat("host", None)] * 2
    device = find_device("cpu")
    assert seats("cpu", 4, 1) == [Seat("cpu", 4)]
    assert seats("cpu", 4, 4) == [Seat("cpu", 1)] * 4
    assert seats("cpu", 4, 2) == [Seat("cpu/1of2", 2), Seat("cpu/2of2", 2)]
    assert seats("cpu,host", 2, 3) == [Seat("cpu", 1), Seat("host", None), Seat("cpu", 1)]
    assert seats("cpu", None, 1) == [Seat("cpu", device.info.workers)]
    with pytest.raises(OptionError, match="share the 2 thread"):
        seats("cpu", 2, 3)
    for count in (0, 1.5):
        with pytest.raises(OptionError, match="not a number of streams"):
            seats("cpu", 2, count)  # type: ignore[arg-type]


def test_options_of_streams_are_refused_without_them() -> None:
    with pytest.raises(OptionError, match="streams is about streams"):
        clgraph.compile(relu(), device="host", streams=2)  # type: ignore[call-overload]
    with pytest.raises(OptionError, match="neither"):
        clgraph.compile(relu(), device="host", hint="fast")  # type: ignore[call-overload]
    with pytest.raises(OptionError, match="queue_size"):
        streamed(queue_size=0)


ENDS = """
import threading, clgraph, numpy as np
from tests.throughput.test_streams import rows, streamed
model = streamed(2)
model.submit(rows(1)).add_done_callback(lambda f: print(f.result()["y"].sum()))
"""


def test_the_interpreter_ends_when_what_was_sent_is_served() -> None:
    found = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (0, "1.0\n", "")


@pytest.mark.parametrize(
    ("shared_out", "waiting", "taken"), [(True, 16, [8, 8]), (True, 8, [4, 4]), (True, 4, [4, 0]), (False, 8, [8, 0])]
)
def test_idle_streams_get_a_part_each_of_what_waits(shared_out: bool, waiting: int, taken: list[int]) -> None:
    queue, batching = RequestQueue(64, shared_out=shared_out), Batching(maximum=16, wait_ms=0)
    sizes: list[int] = []

    def take() -> None:
        sizes.append(len(queue.take(batching) or ()))

    threads = [threading.Thread(target=take) for _ in range(2)]
    with queue._gathering:
        for thread in threads:
            thread.start()
        while len(queue._idle) < 2:
            time.sleep(0.001)
        for _ in range(waiting):
            queue.put(Request({}, RunFuture(), key=()), None)
    queue.close(drain=True)
    for thread in threads:
        thread.join(30)
    assert sizes == taken


def test_who_waits_for_long_looks_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    future, looks = RunFuture[None](), list[float]()

    def look(_: Any, seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 8:
            future.set_result(None)

    monkeypatch.setattr(run_queue._Guard, "look", look)
    future.wait()
    assert looks == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
