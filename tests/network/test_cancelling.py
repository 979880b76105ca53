"""Runs that are ended: by a time-out, by another thread, in the middle of a launch; the model stays usable."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.errors import InputError, RunCancelledError, RunTimeoutError
from clgraph.network.bound_program import BoundProgram
from clgraph.network.tile_kernels import INTERRUPTED
from clgraph.network.tiles import TileExecutor
from tests.support.models import image, small_model
from tests.support.ort_models import model_of

X = image((1, 3, 10, 10))


@pytest.fixture(scope="module", params=["host", pytest.param("pocl", marks=pytest.mark.opencl)])
def model(request: pytest.FixtureRequest) -> clgraph.Model:
    return clgraph.compile(small_model(), device=request.param)


def test_a_run_ends_when_its_time_is_up_and_the_model_can_be_used_again(model: clgraph.Model) -> None:
    want = model(X)
    with pytest.raises(RunTimeoutError, match="not over after 0 s"):
        model.run(X, timeout=0)
    with pytest.raises(TimeoutError):
        model.run_async(X, timeout=0).result(30)
    np.testing.assert_array_equal(model.run(X, timeout=60)["y"], want)


def test_what_is_cancelled_stays_so_until_it_is_renewed(model: clgraph.Model) -> None:
    cancellation = clgraph.Cancellation()
    cancellation.cancel()
    for more in ({}, {"timeout": 60}):
        with pytest.raises(RunCancelledError, match="was cancelled"):
            model.run(X, cancellation=cancellation, **more)
    cancellation.renew()
    np.testing.assert_array_equal(model.run(X, cancellation=cancellation, timeout=60)["y"], model(X))


def test_a_time_out_is_a_number_of_seconds(model: clgraph.Model) -> None:
    for given in (-1, float("nan"), "1"):
        with pytest.raises(InputError, match="number of seconds"):
            model.run(X, timeout=given)
    model.run(X, timeout=float("inf"))


def test_seconds_are_no_cancellation(model: clgraph.Model) -> None:
    streams = clgraph.compile(small_model(), "host", hint="throughput", streams=1)
    for run in (model.run, streams.run, streams.submit):
        with pytest.raises(InputError, match="not 5; a number is a time-out"):
            run(X, cancellation=5)
    streams.close()
    model.run(X)


def test_who_waits_for_another_run_is_told_that_the_time_is_up(model: clgraph.Model) -> None:
    with model._lock, pytest.raises(RunTimeoutError):
        model.run_async(X, timeout=0.1).result(10)


@pytest.mark.opencl
def test_an_interrupted_launch_ends_between_its_steps_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    model = clgraph.compile(small_model(), device="pocl")
    want, cancellation = model(X), clgraph.Cancellation()
    begun = BoundProgram.steps_one_by_one

    def cancelled_within(self: BoundProgram, given: clgraph.Cancellation) -> Any:
        for step in begun(self, given):
            yield step
            given.cancel()  # the step is enqueued, and nobody has waited for it

    monkeypatch.setattr(BoundProgram, "steps_one_by_one", cancelled_within)
    with pytest.raises(RunCancelledError):
        model.run(X, cancellation=cancellation)
    monkeypatch.undo()
    np.testing.assert_array_equal(model(X), want)


@pytest.mark.opencl
def test_workers_leave_when_they_are_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    model = clgraph.compile(small_model(), device="pocl")
    want = model(X)
    (executor,) = set(model._current().network.bound.joined)  # type: ignore[union-attr]
    seen: list[int] = []
    check = TileExecutor.check
    monkeypatch.setattr(TileExecutor, "check", lambda self: seen.append(check(self)) or seen[-1])
    executor.interrupt()
    with pytest.raises(RunCancelledError, match="interrupted"):
        model.run(X)
    assert seen[0] == INTERRUPTED
    np.testing.assert_array_equal(model(X), want)
    # One that no worker has seen is taken back at the end of the run that it was meant for.
    cancellation = clgraph.Cancellation()
    with cancellation.watching([executor]):
        cancellation.cancel()
    np.testing.assert_array_equal(model(X), want)


def test_a_loop_ends_between_its_iterations() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["v", "one"], ["w"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [1]),
        ],
        [helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)],
        "loop",
        [
            helper.make_tensor_value_info("count", TensorProto.INT64, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    model = clgraph.compile(model_of(graph), device="host")
    feeds = {"count": np.array(10**9), "x": np.zeros(1, np.float32)}
    start = time.monotonic()
    with pytest.raises(RunTimeoutError):
        model.run(feeds, timeout=0.2)
    cancellation = clgraph.Cancellation()
    future = model.run_async(feeds, cancellation=cancellation)
    time.sleep(0.05)
    cancellation.cancel()
    with pytest.raises(RunCancelledError):
        future.result(30)
    assert time.monotonic() - start < 20
    assert model.run({**feeds, "count": np.array(3)})["y"] == 3
