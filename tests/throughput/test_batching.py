"""Requests that become batches: which are joined, how, and that each gets its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import clgraph
from clgraph import Batching
from clgraph.errors import InputError, OptionError
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.model.run_queue import RunFuture
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.reduce import Reduce
from clgraph.ops.reshape import Reshape
from clgraph.throughput.requests import Request, RequestQueue
from clgraph.throughput.streamed_model import StreamedModel
from tests.support.zoo import ZOO
from tests.throughput.test_streams import Valve, held, relu, rows, valve

__all__ = ["valve"]


def streamed(topology: Topology, batching: Batching, **options: Any) -> StreamedModel:
    return clgraph.compile(topology, device="host", hint="throughput", streams=1, batching=batching, **options)


def served(model: StreamedModel, valve: Valve, feeds: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of requests that all waited while another one ran."""
    running = held(model, valve)
    futures = [model.submit(f) for f in feeds]
    valve.open.set()
    running.result(30)
    return [future.result(30) for future in futures]


@pytest.mark.parametrize(
    ("counts", "maximum", "entries"),
    [
        ([1] * 8, 8, [8]),
        ([1] * 8, 4, [4, 4]),
        ([1] * 7, 8, [4, 2, 1]),
        ([1] * 3, 16, [2, 1]),
        ([2, 3, 1], 8, [6]),
        ([3, 3, 3], 8, [6, 3]),
        ([9, 1, 1], 8, [9, 2]),
    ],
)
def test_requests_are_joined_and_each_gets_its_own(
    valve: Valve, counts: list[int], maximum: int, entries: list[int]
) -> None:
    with streamed(relu(), Batching(maximum=maximum, wait_ms=0)) as model:
        feeds = [rows(count, -7 * i) for i, count in enumerate(counts)]
        for given, got in zip(feeds, served(model, valve, feeds), strict=True):
            np.testing.assert_array_equal(got["y"], np.maximum(given["x"], 0))
            assert got["y"].base is None or len(got["y"]) in entries, "it would keep the memory of the batch"
        assert valve.entries[1:] == entries
        assert model.throughput.requests == len(counts) + 1


def test_the_first_waits_for_others_and_no_longer_than_until_one_comes_that_does_not_fit(valve: Valve) -> None:
    with streamed(relu(), Batching(maximum=2, wait_ms=20_000)) as model:
        together = [model.submit(rows(1)) for _ in range(2)]
        assert len([f.result(30) for f in together]) == 2
        place = np.empty((1, 4), np.float32)
        alone = [model.submit(rows(1)), model.submit(rows(1), {"y": place})]
        assert len([f.result(10) for f in alone]) == 2
    assert valve.entries == [2, 1, 1]


def test_requests_that_are_older_than_the_stream_is_idle_wait_for_those_of_who_was_just_answered() -> None:
    queue, batching, taken = RequestQueue(64), Batching(maximum=2, wait_ms=20_000), list[int]()
    waiting = Request({}, RunFuture(), key=())
    waiting.sent -= 60  # it has waited for longer than that while the stream was at work
    queue.put(waiting, None)
    stream = threading.Thread(target=lambda: taken.append(len(queue.take(batching) or ())))
    stream.start()
    while queue._sent.qsize():
        time.sleep(0.001)
    queue.put(Request({}, RunFuture(), key=()), None)
    stream.join(30)
    assert taken == [2]


@pytest.mark.parametrize("shapes", [((), (1, 4)), ((1, 4), ()), ((1, 4), (2, 4)), ((), ())])
def test_inputs_that_differ_in_entries_are_joined_with_none(shapes: tuple[tuple[int, ...], ...]) -> None:
    topology = Topology()
    a, b = topology.input("a", ("batch", 4)), topology.input("b", ("batch", 4))
    topology.output(topology.add("sum", Eltwise("add"), a, b))
    with streamed(topology, Batching(maximum=4, wait_ms=0)) as model:
        feeds = {name: np.ones(shape, np.float32) for name, shape in zip("ab", shapes, strict=True)}
        assert model._key(feeds) == (None, 1, 0)


def test_what_one_caller_may_end_or_owns_is_run_alone(valve: Valve) -> None:
    with streamed(relu(), Batching(wait_ms=0)) as model:
        running, place = held(model, valve), np.empty((1, 4), np.float32)
        futures = [
            model.submit(rows(1), {"y": place}),
            model.submit(rows(1), cancellation=clgraph.Cancellation()),
            model.submit(rows(1), tensors=True),
            model.submit(rows(1), outputs=["y"]),
            model.submit(rows(1), timeout=30),
        ]
        valve.open.set()
        results = [f.result(30) for f in (running, *futures)]
        assert results[1]["y"] is place
        assert isinstance(results[3]["y"], clgraph.Tensor)
        assert valve.entries == [1, 1, 1, 1, 2]


def test_one_that_fails_takes_no_other_with_it(valve: Valve, monkeypatch: pytest.MonkeyPatch) -> None:
    run = valve.run

    def picky(model: Model, feeds: dict[str, Any], **options: Any) -> dict[str, Any]:
        if (feeds["x"] == 13).any():
            raise InputError("thirteen")
        return run(model, feeds, **options)

    valve.run = picky
    with streamed(relu(), Batching(wait_ms=0)) as model:
        running = held(model, valve)
        futures = [model.submit({"x": np.full((1, 4), value, np.float32)}) for value in (1, 13, 2, 3)]
        unknown = model.submit(rows(1), outputs=["z"])
        valve.open.set()
        running.result(30)
        with pytest.raises(InputError, match="thirteen"):
            futures[1].result(30)
        with pytest.raises(InputError, match="no output is called 'z'"):
            unknown.result(30)
        assert [float(futures[i].result(30)["y"][0, 0]) for i in (0, 2, 3)] == [1, 2, 3]
        assert model.throughput.failed == 2


def reading() -> Topology:
    """Return a masked sum of rows of a table, and the rows: outputs with and without the length."""
    topology = Topology()
    ids, mask = topology.input("ids", ("batch", "length"), np.int64), topology.input("mask", ("batch", "length"))
    table = topology.constant("table", np.arange(1, 11, dtype=np.float32))
    topology.output(topology.add("rows", Gather(), table, ids))
    masked = topology.add("masked", Eltwise("mul"), "rows", mask)
    topology.output(topology.add("sum", Reduce("sum", (1,)), masked))
    return topology


def test_lengths_are_filled_up_and_results_cut_back(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    feeds = [
        {"ids": random.integers(0, 10, (1, n)), "mask": np.ones((1, n), np.float32)} for n in (3, 8, 5, 9, 12, 1, 8, 16)
    ]
    shapes: list[tuple[int, ...]] = []
    run = Model.run

    def note(model: Model, given: dict[str, Any], **options: Any) -> dict[str, Any]:
        shapes.append(given["ids"].shape)
        return run(model, given, **options)

    with streamed(reading(), Batching(pad={"ids": 0, "mask": 0}, step=8, wait_ms=50)) as model:
        wanted = [model.model.run(f) for f in feeds]
        monkeypatch.setattr(Model, "run", note)
        futures = [model.submit(f) for f in feeds]
        for want, future in zip(wanted, futures, strict=True):
            got = future.result(30)
            assert got["rows"].shape == want["rows"].shape
            # whole numbers: no sum is rounded
            np.testing.assert_array_equal(got["rows"], want["rows"])
            np.testing.assert_array_equal(got["sum"], want["sum"])
    assert sum(batch for batch, _ in shapes) == len(feeds)
    assert any(batch > 1 for batch, _ in shapes)
    assert all(length in (8, 16) for batch, length in shapes if batch > 1)


@pytest.mark.opencl
def test_an_encoder_of_mixed_lengths_gives_what_each_text_alone_gives() -> None:
    proto, _ = ZOO["small_encoder_open"].make()
    names = [i.name for i in proto.graph.input]
    random = np.random.default_rng(1)
    texts = [int(n) for n in random.integers(2, 33, 24)]
    feeds = [
        {name: random.integers(0, 2, (1, n)) if "mask" not in name else np.ones((1, n), np.int64) for name in names}
        for n in texts
    ]
    batching = Batching(maximum=8, wait_ms=20, pad=dict.fromkeys(names, 0), step=16)
    with clgraph.compile(proto, device="pocl", threads=2, hint="throughput", batching=batching) as model:
        futures = [model.submit(f) for f in feeds]
        got = [next(iter(f.result(60).values())) for f in futures]
        want = [next(iter(model.model.run(f).values())) for f in feeds]
        assert model.throughput.batches.keys() - {1}, "nothing was joined"
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape
        # Sums of other lengths and orders: 2 layers of normalised values about 1, products of at most 64 terms, each
        # rounded by half an ulp, 6 products and 3 normalisations a layer.
        np.testing.assert_allclose(one, other, rtol=0, atol=2 * 9 * 64 * 2**-24 * float(np.abs(other).max()))


def whole() -> Topology:
    topology = Topology()
    topology.output(topology.add("y", Reduce("sum", (0,)), topology.input("x", ("batch", 4))))
    return topology


def test_a_graph_that_mixes_entries_is_run_one_by_one_and_says_why(valve: Valve) -> None:
    with streamed(whole(), Batching(wait_ms=0)) as model:
        feeds = [rows(2, i) for i in range(3)]
        for given, got in zip(feeds, served(model, valve, feeds), strict=True):
            np.testing.assert_array_equal(got["y"], given["x"].sum(0, keepdims=True))
        assert valve.entries == [1, 2, 2, 2]
        assert "not joined: y (reduce) is not known to keep the entries of a batch apart" in model.throughput.batching


def fixed(batch: int) -> Topology:
    topology = Topology()
    topology.output(topology.add("y", Activation("relu"), topology.input("x", (batch, 4))))
    return topology


def constant_rows() -> Topology:
    topology = Topology()
    topology.input("x", ("batch", 4))
    topology.output(topology.add("y", Reshape((1, 4)), "x"))
    return topology


def test_a_batch_of_one_that_the_model_declares_is_opened(valve: Valve) -> None:
    with streamed(fixed(1), Batching(wait_ms=0)) as model:
        feeds = [rows(1, i) for i in range(4)]
        for given, got in zip(feeds, served(model, valve, feeds), strict=True):
            np.testing.assert_array_equal(got["y"], np.maximum(given["x"], 0))
        assert valve.entries == [1, 4]


def test_what_cannot_be_joined_is_refused_with_the_reason() -> None:
    with pytest.raises(OptionError, match="input 'x' has a batch of 3"):
        streamed(fixed(3), Batching())
    scalar = Topology()
    scalar.output(scalar.add("y", Activation("relu"), scalar.input("x", ())))
    with pytest.raises(OptionError, match="has no batch dimension"):
        streamed(scalar, Batching())
    with streamed(constant_rows(), Batching()) as model:
        assert model.run(rows(1))["y"].shape == (1, 4)
        assert "do not fit the shape" in model.throughput.batching


@pytest.mark.parametrize(
    ("pad", "why"),
    [
        ({"idz": 0}, "no input 'idz'"),
        ({"ids": 0}, "input 'mask' has the length"),
    ],
)
def test_what_is_filled_up_has_a_length(pad: dict[str, float], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        streamed(reading(), Batching(pad=pad))
    with pytest.raises(OptionError, match="0 open lengths"):
        streamed(relu(), Batching(pad={"x": 0}))


def test_a_result_whose_length_is_not_that_of_the_inputs_is_not_joined() -> None:
    topology = Topology()
    x = topology.input("x", ("batch", "length"))
    one = topology.add("one", Activation("relu"), x)
    topology.output(topology.add("y", Concat(1), one, one))
    with streamed(topology, Batching(pad={"x": 0}, step=4)) as model:
        assert model.run({"x": np.ones((1, 3), np.float32)})["y"].shape == (1, 6)
        assert "cannot be cut back" in model.throughput.batching


@pytest.mark.parametrize("wrong", [{"maximum": 0}, {"maximum": 2.0}, {"wait_ms": -1}, {"wait_ms": "2"}, {"step": 0}])
def test_numbers_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="batching"):
        Batching(**wrong)
