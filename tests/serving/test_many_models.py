"""Batches and evictions behind the server, as clients see them: real models, both protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from onnx import helper, numpy_helper
from tritonclient.utils import InferenceServerException

import clgraph
from tests.serving.running import Running, save
from tests.support.graphs import FLOAT

pytestmark = pytest.mark.opencl

SIDE = 128


def _product(path: Path, number: int, rows: int | str = "n") -> None:
    """Save a model whose results tell its number."""
    weights = numpy_helper.from_array(np.full((SIDE, SIDE), number, np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    inputs, outputs = (helper.make_tensor_value_info(name, FLOAT, [rows, SIDE]) for name in "xy")
    save(path, nodes, [inputs], [outputs], [weights])


@contextmanager
def _served(folder: Path, **options: Any) -> Iterator[Running]:
    found = Running(folder, **options)
    try:
        found.wait()
        yield found
    finally:
        found.stop()


def _infer(client: Any, model: str, array: np.ndarray) -> np.ndarray:
    module = __import__(type(client).__module__.rpartition(".")[0], fromlist=["InferInput"])
    tensor = module.InferInput("x", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    return np.asarray(client.infer(model, [tensor]).as_numpy("y"))


def _metrics(running: Running) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{running.server.http_port}/metrics", timeout=20) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_concurrent_calls_are_joined_and_each_gets_its_own_results(tmp_path: Path) -> None:
    _product(tmp_path / "a/model.onnx", 1)
    # All eight fit into one batch, and whoever comes first waits for the others.
    (tmp_path / "a/model.toml").write_text("streams = 1\n[batching]\nmaximum = 8\nwait_ms = 2000\n")
    with _served(tmp_path, connections=32) as running, ThreadPoolExecutor(8) as clients:

        def call(number: int) -> None:
            found = _infer(running.grpc, "a", np.full((1, SIDE), number, np.float32))
            assert found.shape == (1, SIDE)
            assert (found == SIDE * number).all()

        list(clients.map(call, range(8)))
        found = _metrics(running)
    entries = {int(name.split('"')[1]): n for name, n in found.items() if name.startswith("clgraph_batches_total{")}
    assert sum(size * count for size, count in entries.items()) == 8
    assert max(entries) > 1, entries
    assert found['clgraph_requests_total{model="a",protocol="grpc",status="200",version="1"}'] == 8


def test_one_bad_call_of_a_batch_is_told_so_and_the_others_get_their_results(tmp_path: Path) -> None:
    _product(tmp_path / "a/model.onnx", 1)
    (tmp_path / "a/model.toml").write_text("streams = 1\n[batching]\nmaximum = 4\nwait_ms = 300\n")
    with _served(tmp_path) as running, ThreadPoolExecutor(4) as clients:
        good = [clients.submit(_infer, running.grpc, "a", np.ones((1, SIDE), np.float32)) for _ in range(3)]
        bad = clients.submit(_infer, running.grpc, "a", np.ones((1, SIDE + 1), np.float32))
        assert all((each.result(20) == SIDE).all() for each in good)
        with pytest.raises(InferenceServerException, match="INVALID_ARGUMENT"):
            bad.result(20)


def _taken(number: int) -> int:
    """Return what one of the models takes when it has run once."""
    budget = clgraph.MemoryBudget(0)
    _product(folder := Path("one.onnx"), number)
    with clgraph.compile(folder, memory_limit=budget, hint="throughput", streams=1) as model:
        model.run({"x": np.ones((1, SIDE), np.float32)})
        return max(budget.taken.values())


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Path]:
    """Return what makes a folder of so many models."""
    monkeypatch.chdir(tmp_path)

    def made(count: int) -> Path:
        for number in range(count):
            _product(tmp_path / f"models/m{number}/model.onnx", number)
            (tmp_path / f"models/m{number}/model.toml").write_text("streams = 1\n")
        return tmp_path / "models"

    return made


def test_models_beyond_the_limit_are_evicted_and_answer_all_the_same(in_folder: Callable[[int], Path]) -> None:
    folder, limit = in_folder(5), 2 * _taken(1)
    with _served(folder, memory_limit=limit) as running:
        for number in (0, 1, 2, 3, 4, 0, 1, 0):
            for client in (running.http, running.grpc):
                assert (_infer(client, f"m{number}", np.ones((1, SIDE), np.float32)) == SIDE * number).all()
        found = _metrics(running)
        index = {each["name"]: each for each in running.http.get_model_repository_index()}
        assert running.grpc.is_model_ready("m2"), "an evicted model is ready"
        assert running.http.get_model_metadata("m2")["inputs"][0]["shape"] == [-1, SIDE]
    taken = [value for name, value in found.items() if name.startswith("clgraph_model_bytes")]
    assert sum(taken) <= limit
    assert [n for n, each in index.items() if each["reason"].startswith("evicted")] == ["m2", "m3", "m4"]
    assert {each["state"] for each in index.values()} == {"READY"}
    assert sum(v for name, v in found.items() if name.startswith("clgraph_evictions_total")) >= 5
    assert found['clgraph_loads_total{model="m2",version="1"}'] >= 1


def test_calls_of_models_that_do_not_fit_together_are_all_answered(in_folder: Callable[[int], Path]) -> None:
    folder, limit = in_folder(3), int(1.5 * _taken(1))
    with _served(folder, memory_limit=limit, timeout=60) as running, ThreadPoolExecutor(6) as clients:

        def call(number: int) -> None:
            assert (_infer(running.grpc, f"m{number % 3}", np.ones((1, SIDE), np.float32)) == SIDE * (number % 3)).all()

        list(clients.map(call, range(18)))


def test_a_call_that_can_never_fit_is_refused_and_the_server_goes_on(in_folder: Callable[[int], Path]) -> None:
    folder, limit = in_folder(2), 2 * _taken(1)
    with _served(folder, memory_limit=limit) as running:
        with pytest.raises(InferenceServerException, match=r"RESOURCE_EXHAUSTED.*memory_limit allows"):
            _infer(running.grpc, "m0", np.ones((4096, SIDE), np.float32))
        assert (_infer(running.grpc, "m1", np.ones((1, SIDE), np.float32)) == SIDE).all()


def test_clients_send_images_of_bytes_where_the_options_say_what_is_done_to_them(tmp_path: Path) -> None:
    path = tmp_path / "sums.onnx"
    inputs = [helper.make_tensor_value_info("x", FLOAT, [1, 3, 8, 8])]
    outputs = [helper.make_tensor_value_info("y", FLOAT, [1, 3, 1, 1])]
    save(path, [helper.make_node("GlobalAveragePool", ["x"], ["y"])], inputs, outputs, [])
    (tmp_path / "sums.toml").write_text("[preprocess]\nmean = [1, 2, 3]\nscale = 0.5\n")
    images = [np.random.default_rng(n).integers(0, 256, (9 + 4 * n, 12, 3), np.uint8) for n in range(2)]
    done = clgraph.Preprocess(mean=(1, 2, 3), scale=0.5)
    model = clgraph.compile(path, "pocl:0", preprocess=done)
    with _served(tmp_path, compile={"device": "pocl:0"}) as running:
        for client in (running.http, running.grpc):
            module = __import__(type(client).__module__.rpartition(".")[0], fromlist=["InferInput"])
            for image in images:
                tensor = module.InferInput("x", list(image.shape), "UINT8")
                tensor.set_data_from_numpy(image)
                found = client.infer("sums", [tensor]).as_numpy("y")
                np.testing.assert_array_equal(found, model.run({"x": image})["y"])
