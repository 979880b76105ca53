"""Many models in one process within a budget: who is evicted, who is not, and that nobody notices but by the time."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.errors import ClosedError, MemoryLimitError, ModelError, OptionError
from tests.support.graphs import FLOAT
from tests.support.open_models import open_model
from tests.support.waiting import until

pytestmark = pytest.mark.opencl

SIDE = 128
X = {"x": np.ones((2, SIDE), np.float32)}


def product(number: int) -> onnx.ModelProto:
    """Return a model of 64 KiB whose results tell its number."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return open_model(nodes, {"x": (FLOAT, ("n", SIDE))}, {"w": np.full((SIDE, SIDE), number, np.float32)})


def each(device: str) -> int:
    """Return what one of them takes."""
    budget = clgraph.MemoryBudget(0)
    with clgraph.compile(product(1), device, memory_limit=budget) as model:
        model.run(X)
        (taken,) = budget.taken.values()
    assert not budget.taken, "a closed model takes nothing"
    return taken


def pool_of(count: int, limit: Any, device: str, **options: Any) -> clgraph.Pool:
    pool = clgraph.Pool(limit, device=device, **options)
    for number in range(count):
        pool.add(str(number), product(number))
    return pool


def loaded(pool: clgraph.Pool) -> list[str]:
    return [r.name for r in pool.report if r.loaded]


def test_fifty_models_of_four_threads_keep_within_the_budget_and_none_gives_the_results_of_another(device: str) -> None:
    limit = 8 * each(device)
    with pool_of(50, limit, device) as pool:
        order = np.random.default_rng(0).integers(0, 50, 160).tolist()

        def use(number: int) -> None:
            assert set(pool.budget.taken) <= {device}
            y = pool.run(str(number), X)["y"]
            assert (y == number * SIDE).all()
            assert pool.budget.taken.get(device, 0) <= limit

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(use, order))
        assert 1 <= len(loaded(pool)) <= 8
        reports = pool.report
        assert sum(r.loads for r in reports) - sum(r.evictions for r in reports) == len(loaded(pool))
        assert sum(r.evictions for r in reports) > 50
        budget = pool.budget
    assert not budget.taken


def test_what_was_used_longest_ago_goes_and_comes_back_by_itself(device: str) -> None:
    with pool_of(4, 3 * each(device), device) as pool:
        for number in (0, 1, 2, 0):
            pool.run(str(number), X)
        pool.run("3", X)
        assert loaded(pool) == ["0", "2", "3"]
        assert str(pool.report[1]) == "1: not loaded; loaded 1 times, evicted 1"
        assert (pool.run("1", X)["y"] == SIDE).all()
        assert loaded(pool) == ["0", "1", "3"]
        assert pool.report[1].loads == 2
        assert "3 loaded" in repr(pool)


def test_what_is_in_use_is_never_evicted_and_who_needs_room_waits_for_it(device: str) -> None:
    with pool_of(3, 2 * each(device), device) as pool, ThreadPoolExecutor(1) as other:
        with pool.using("0") as first, pool.using("1") as second:
            first.run(X), second.run(X)
            waiting = other.submit(pool.run, "2", X)
            until(lambda: pool.report[2].users)
            assert loaded(pool)[:2] == ["0", "1"]
            assert (first.run(X)["y"] == 0).all()
            assert not waiting.done()
        assert (waiting.result(20)["y"] == 2 * SIDE).all()
        assert len(loaded(pool)) == 2


def test_who_waits_for_itself_or_too_long_is_refused_and_everything_goes_on(device: str) -> None:
    limit = each(device)
    with pool_of(2, limit, device) as pool:
        with pool.using("0") as first:
            first.run(X)
            with pytest.raises(MemoryLimitError, match="of other models, stages or streams"):
                pool.run("1", X)
        assert (pool.run("1", X)["y"] == SIDE).all()
    with pool_of(2, limit, device, patience=0.05) as pool, ThreadPoolExecutor(1) as other:
        with pool.using("0") as first:
            first.run(X)
            with pytest.raises(MemoryLimitError):
                other.submit(pool.run, "1", X).result(20)
        assert (pool.run("1", X)["y"] == SIDE).all()


def test_what_can_never_fit_evicts_nobody(device: str) -> None:
    with pool_of(2, 2 * each(device), device) as pool:
        pool.run("0", X)
        with pytest.raises(MemoryLimitError, match="a batch of 68 in place of 4096"):
            pool.run("1", {"x": np.ones((4096, SIDE), np.float32)})
        assert pool.report[0].evictions == 0
        assert (pool.run("1", X)["y"] == SIDE).all()


def test_a_model_that_cannot_be_loaded_harms_no_other(device: str) -> None:
    with pool_of(1, 0, device) as pool:
        pool.add("broken", b"no model")
        for _ in range(2):
            with pytest.raises(ModelError):
                pool.run("broken", X)
        assert [r.users for r in pool.report] == [0, 0]
        pool.run("0", X)
        with pytest.raises(OptionError, match=r"no model 'brokn'.*broken"):
            pool.run("brokn", X)
        with pytest.raises(OptionError, match="remove it"):
            pool.add("0", product(0))
        pool.remove("0")
        assert list(pool) == ["broken"]
        assert "0" not in pool
    with pytest.raises(ClosedError):
        pool.run("broken", X)
    with pytest.raises(ClosedError):
        pool.add("a", product(0))


def test_models_are_evicted_by_hand_but_not_while_they_are_used(device: str) -> None:
    with pool_of(1, 0, device) as pool:
        assert not pool.evict("0")
        with pool.using("0"):
            assert not pool.evict("0")
        assert pool.evict("0")
        assert pool.report[0].evictions == 1


def test_streams_of_a_pool_are_evicted_when_they_have_served(device: str) -> None:
    limit = 3 * each(device)
    with clgraph.Pool(limit, device=device, hint="throughput", streams=2) as pool:
        for number in range(4):
            pool.add(str(number), product(number))
        for number in (0, 1, 2, 3, 0):
            assert (pool.run(str(number), X)["y"] == number * SIDE).all()
            assert pool.budget.taken[device] <= limit
        assert sum(r.evictions for r in pool.report) >= 1


def test_one_limit_holds_for_streams_with_parts_of_a_cpu_together(device: str) -> None:
    alone = each(device)
    with pytest.raises(MemoryLimitError, match="of other models, stages or streams"):
        clgraph.compile(
            product(1), device, shapes={"x": (2, SIDE)}, hint="throughput", streams=2, threads=4,
            memory_limit=int(1.5 * alone),
        )  # fmt: skip
    clgraph.compile(
        product(1), device, shapes={"x": (2, SIDE)}, hint="throughput", streams=2, threads=4, memory_limit=3 * alone
    ).close()


def test_a_budget_is_shared_by_models_that_are_compiled_with_it_and_given_back_with_them(device: str) -> None:
    alone = each(device)
    budget = clgraph.MemoryBudget(2 * alone)
    first, second = (clgraph.compile(product(n), device, memory_limit=budget) for n in (1, 2))
    first.run(X), second.run(X)
    assert budget.taken == {device: 2 * alone}
    third = clgraph.compile(product(3), device, memory_limit=budget)
    with pytest.raises(MemoryLimitError):
        third.run(X)
    first.close()
    assert (third.run(X)["y"] == 3 * SIDE).all()
    del second, third
    assert not budget.taken
    assert pickle.loads(pickle.dumps(budget)) == budget


def test_threads_that_want_one_model_load_it_once(device: str) -> None:
    with pool_of(1, 0, device) as pool:
        start = threading.Barrier(4)

        def use(_: int) -> Any:
            start.wait(20)
            return pool.run("0", X)["y"]

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(use, range(4)))
        assert pool.report[0].loads == 1


def test_two_models_that_do_not_fit_together_are_both_served_by_threads_that_never_pause(device: str) -> None:
    with pool_of(2, int(1.5 * each(device)), device) as pool:
        start = threading.Barrier(4)

        def use(number: int) -> None:
            start.wait(20)
            for _ in range(5):
                with pool.using(str(number % 2)) as model:
                    assert (model.run(X)["y"] == number % 2 * SIDE).all()

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(use, range(4)))
        assert all(r.loads for r in pool.report)


def test_who_waits_for_a_model_to_go_is_not_kept_waiting_by_those_who_come_later(device: str) -> None:
    with pool_of(2, int(1.5 * each(device)), device) as pool, ThreadPoolExecutor(2) as others:
        with pool.using("0") as first:
            first.run(X)
            waiting = others.submit(pool.run, "1", X)
            until(lambda: pool._entries["0"].leaving)
            later = others.submit(pool.run, "0", X)
            assert pool.begin_loaded("0") is None
            with pool.using("0"):
                pass  # who uses it already may go on
        assert (waiting.result(20)["y"] == SIDE).all()
        assert (later.result(20)["y"] == 0).all()
        assert pool.report[0].loads == 2


def test_who_needs_room_waits_for_a_model_that_is_being_made(device: str) -> None:
    made, go_on = threading.Event(), threading.Event()
    with clgraph.Pool(int(1.5 * each(device)), device=device) as pool, ThreadPoolExecutor(2) as others:

        def slow(budget: clgraph.MemoryBudget) -> clgraph.Model:
            model = clgraph.compile(product(0), device, shapes={"x": (2, SIDE)}, memory_limit=budget)
            made.set()
            assert go_on.wait(20)
            return model

        pool.add_made("slow", slow)
        pool.add("1", product(1), shapes={"x": (2, SIDE)})
        first = others.submit(pool.run, "slow", X)
        assert made.wait(20)
        second = others.submit(pool.run, "1", X)
        until(lambda: pool._entries["slow"].leaving)
        go_on.set()
        assert (first.result(20)["y"] == 0).all()
        assert (second.result(20)["y"] == SIDE).all()
