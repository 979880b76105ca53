"""Futures, clones, and several models in several threads at once."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clgraph
from clgraph.compilation import compiler
from clgraph.errors import ClosedError, DeadlockError, InputError
from clgraph.model import run_queue
from clgraph.model.run_queue import RunQueue
from clgraph.network.network import Network
from tests.support.models import image, light_model, small_model


@pytest.fixture(params=["host", pytest.param("pocl", marks=pytest.mark.opencl)])
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Gate:
    """Holds whoever calls it until it is opened, and says that somebody is there."""

    def __init__(self) -> None:
        self.reached, self._open = threading.Event(), threading.Event()

    def __call__(self, value: Any = None) -> Any:
        self.reached.set()
        assert self._open.wait(30)
        return value

    def open(self) -> None:
        self._open.set()


class TestFutures:
    def test_results_are_those_of_run(self, where: str) -> None:
        model = clgraph.compile(small_model(size="n"), device=where)
        arrays = [image((1, 3, 8 + i % 3, 8), i) for i in range(9)]
        wanted = [model(x) for x in arrays]
        futures = [model.run_async({"x": x}) for x in arrays]
        for future, want in zip(futures, wanted, strict=True):
            np.testing.assert_array_equal(future.result(30)["y"], want)
        place = np.empty_like(wanted[0])
        assert model.run_async({"x": arrays[0]}, {"y": place}).result(30)["y"] is place
        np.testing.assert_array_equal(place, wanted[0])
        assert isinstance(model.run_async({"x": arrays[0]}, tensors=True).result(30)["y"], clgraph.Tensor)

    def test_an_exception_is_delivered_and_the_next_run_is_right(self) -> None:
        model = clgraph.compile(small_model(), device="host")
        x = image((1, 3, 10, 10))
        wrong, right = model.run_async({"x": x[0]}), model.run_async({"x": x})
        with pytest.raises(InputError, match="does not fit"):
            wrong.result(30)
        np.testing.assert_array_equal(right.result(30)["y"], model(x))

    def test_what_has_not_begun_can_be_cancelled(self) -> None:
        queue, gate = RunQueue("test"), Gate()
        first, second, third = queue.submit(gate, 1), queue.submit(gate, 2), queue.submit(gate, 3)
        assert gate.reached.wait(30)
        assert not first.cancel()
        assert second.cancel()
        gate.open()
        assert (first.result(30), third.result(30)) == (1, 3)
        with pytest.raises(CancelledError):
            second.result(0)

    def test_the_queue_is_bounded_and_cancelling_makes_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run_queue, "LONGEST", 2)
        queue, gate = RunQueue("test"), Gate()
        futures = [queue.submit(gate, 0), queue.submit(gate, 1)]
        made: list[Future[Any]] = []
        third = threading.Thread(target=lambda: made.append(queue.submit(gate, 2)))
        third.start()
        third.join(0.05)
        assert third.is_alive()
        assert futures[1].cancel()
        third.join(30)
        assert len(made) == 1
        gate.open()
        assert (futures[0].result(30), made[0].result(30)) == (0, 2)
        assert [queue.submit(gate, n).result(30) for n in range(5)] == list(range(5))

    def test_a_done_callback_that_waits_for_a_later_run_is_told_that_it_never_ends(self) -> None:
        queue, told, done = RunQueue("test"), [], threading.Event()

        def wait(_: Future[Any]) -> None:
            later = queue.submit(int, 5)
            for ask in (later.result, later.exception):
                with pytest.raises(DeadlockError, match="add_done_callback"):
                    ask()
            with pytest.raises(TimeoutError):
                later.result(0.01)
            later.add_done_callback(lambda future: (told.append(future.result()), done.set()))

        first = queue.submit(int, 4)
        first.add_done_callback(wait)
        assert done.wait(30)
        assert (first.result(30), told) == (4, [5])

    def test_a_done_callback_may_submit_to_a_full_queue(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run_queue, "LONGEST", 2)
        queue, gate, made = RunQueue("test"), Gate(), []
        first, second = queue.submit(gate, 1), queue.submit(int, 2)
        first.add_done_callback(lambda _: made.extend(queue.submit(int, n) for n in range(3)))
        gate.open()
        assert (first.result(30), second.result(30)) == (1, 2)
        assert [future.result(30) for future in made] == [0, 1, 2]

    def test_closing_cancels_what_waits_and_finishes_what_runs(self) -> None:
        queue, gate = RunQueue("test"), Gate()
        running, waiting = queue.submit(gate, 1), queue.submit(gate, 2)
        assert gate.reached.wait(30)
        cancelled = threading.Event()
        waiting.add_done_callback(lambda _: cancelled.set())
        closing = threading.Thread(target=queue.close)
        closing.start()
        assert cancelled.wait(30)
        assert waiting.cancelled()
        gate.open()
        closing.join(30)
        assert running.result(0) == 1

    def test_the_interpreter_runs_while_a_model_does(self, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever submits gets on at once, whatever the run takes."""
        gate, run = Gate(), Network.run
        model = clgraph.compile(small_model(), device=where)
        monkeypatch.setattr(Network, "run", lambda *args: gate() or run(*args))
        x = image((1, 3, 10, 10))
        future = model.run_async({"x": x})
        assert gate.reached.wait(30)
        assert not future.done()
        gate.open()
        assert future.result(30)["y"].shape == (1, 8, 5, 5)

    def test_a_model_that_is_dropped_takes_its_thread_along(self) -> None:
        model = clgraph.compile(small_model(), device="host")
        model.run_async({"x": image((1, 3, 10, 10))}).result(30)
        gone = weakref.ref(model)
        threads = [t for t in threading.enumerate() if t.name.startswith("clgraph-run")]
        del model
        gc.collect()
        assert gone() is None
        # Other tests' models may have a thread, too; this one's ends.
        deadline = time.monotonic() + 30
        while all(t.is_alive() for t in threads) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not all(t.is_alive() for t in threads)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
    @pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
    def test_a_forked_child_has_a_queue_of_its_own(self) -> None:
        queue, gate = RunQueue("test"), Gate()
        running = queue.submit(gate, 1)
        assert gate.reached.wait(30)
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            os._exit(queue.submit(int, "7").result())
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        gate.open()
        assert running.result(30) == 1


class TestClones:
    def test_a_clone_gives_the_same_bits_and_compiles_nothing(self, where: str, monkeypatch: Any) -> None:
        model = clgraph.compile(small_model(size="n"), device=where)
        x, z = image((1, 3, 10, 10)), image((1, 3, 6, 8))
        want, later = model(x), None
        clone = model.clone()
        later = model(z)
        monkeypatch.setattr(compiler.Compiler, "specialise", None)
        np.testing.assert_array_equal(clone(x), want)
        np.testing.assert_array_equal(clone(z), later)
        np.testing.assert_array_equal(clone.clone()(z), later)
        assert clone.program is model.program

    def test_a_clone_outlives_its_model(self, where: str) -> None:
        model = clgraph.compile(small_model(size="n"), device=where)
        x = image((1, 3, 10, 10))
        want = model(x)
        clone = model.clone()
        model.close()
        np.testing.assert_array_equal(clone(x), want)
        assert clone(image((1, 3, 6, 6))).shape == (1, 8, 3, 3)
        with pytest.raises(ClosedError):
            model(x)

    @pytest.mark.opencl
    def test_weights_are_shared_and_activations_are_not(self, device: str) -> None:
        model = clgraph.compile(small_model(size=40, channels=32), device=device)
        clone = model.clone()
        first, second = (next(iter(m._current().network.bound.places.values())) for m in (model, clone))
        copies, others = ([m for laid in places.laid for m in laid.copies] for places in (first, second))
        assert copies
        assert copies == others
        assert first.banks[0] is not second.banks[0]
        assert first.fixed == second.fixed

    @pytest.mark.opencl
    def test_memory_is_given_back_without_a_search_for_garbage(self, device: str) -> None:
        model = clgraph.compile(small_model(size=40), device=device)
        clone = model.clone()
        clone(image((1, 3, 40, 40)))
        networks = [weakref.ref(m._current().network) for m in (clone, model)]
        gc.disable()
        try:
            clone.close()
            assert networks[0]() is None
            assert networks[1]() is not None
            model.close()
            assert networks[1]() is None
        finally:
            gc.enable()


@pytest.mark.opencl
@pytest.mark.parametrize(("executor", "threads"), [("persistent", 2), ("persistent", 5), ("stream", 2)])
def test_models_in_threads_give_what_they_give_one_after_the_other(
    device: str, executor: str, threads: int, tmp_path: Path
) -> None:
    """Four threads, three models and their clones, sizes that change; more workers than cores, too."""
    options: dict[str, Any] = {"device": device, "threads": threads, "config": {"executor": executor}}
    models = [
        clgraph.compile(small_model(size="n", channels=8), **options),
        clgraph.compile(small_model(size="n", channels=40, seed=1), **options),
        clgraph.compile(light_model("squeezenet"), **options),
    ]
    feeds = [image((1, 3, 8 + 4 * i, 12 + i), i) for i in range(4)]
    picture = image((1, 3, 224, 224), 9)
    jobs = [(0, x) for x in feeds] + [(1, x) for x in feeds] + [(2, picture)]
    wanted = [models[m].run({models[m].inputs[0].name: x}) for m, x in jobs]
    clones = [model.clone() for model in models]

    def work(number: int) -> list[str]:
        random = np.random.default_rng(number)
        wrong = []
        for job in random.permutation(np.repeat(np.arange(len(jobs)), [3] * 8 + [1])):
            m, x = jobs[job]
            model = (models, clones)[int(random.integers(2))][m]
            feed = {model.inputs[0].name: x}
            found = model.run(feed) if random.integers(2) else model.run_async(feed).result(300)
            wrong += [f"job {job}: {n}" for n, a in wanted[job].items() if not np.array_equal(found[n], a)]
        return wrong

    with ThreadPoolExecutor(4) as pool:
        assert [w for found in pool.map(work, range(4)) for w in found] == []
    for model in (*models, *clones):
        model.close()
