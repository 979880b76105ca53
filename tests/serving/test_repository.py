from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.errors import ClosedError, InputError, NotReadyError, QueueFullError, UnknownModelError
from clgraph.graph.signature import Signature
from clgraph.serving.repository import Repository
from tests.serving.conftest import FakeModel, Fakes
from tests.support.waiting import until

X = {"x": np.zeros((1, 2), np.float32)}


def _write(root: Path, name: str, text: str = "model") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def _index(repository: Repository) -> dict[tuple[str, int], str]:
    return {(e.found.name, e.found.version): e.reason or e.state for e in repository.index()}


def _run(repository: Repository, name: str, version: str = "") -> Any:
    return repository.get(name, version).submit(X).future.result(10)["y"].tolist()


def test_models_are_loaded_and_a_broken_one_says_why_while_others_are_served(
    tmp_path: Path, repository: Repository
) -> None:
    _write(tmp_path, "a/1/model.onnx")
    _write(tmp_path, "b.onnx", "broken")
    _write(tmp_path, "c.onnx")
    _write(tmp_path, "c.toml", "thread = 1")
    repository.refresh(settled=False)
    index = _index(repository)
    assert index[("a", 1)] == "READY"
    assert index[("b", 1)] == "b.onnx is broken"
    assert index[("c", 1)].startswith("c.toml: 'thread' is not an option")
    assert [e.found.name for e in repository.index(ready=True)] == ["a"]
    assert _run(repository, "a") == _run(repository, "a", "1") == [[1, 1]]
    with pytest.raises(NotReadyError, match=r"model 'b' is not ready: b\.onnx is broken"):
        repository.get("b")
    for name, version in (("d", ""), ("a", "2"), ("a", "01"), ("../a", ""), ("", "")):
        with pytest.raises(UnknownModelError):
            repository.get(name, version)


def test_models_that_wait_to_be_loaded_are_told_as_loading(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, "a.onnx")
    _write(tmp_path, "b/1/model.onnx")
    _write(tmp_path, "b/2/model.onnx")
    told: list[dict[tuple[str, int], str]] = []
    load = repository._load

    def _told(*args: Any, **more: Any) -> bool:
        told.append(_index(repository))
        return load(*args, **more)

    monkeypatch.setattr(repository, "_load", _told)
    repository.refresh(settled=False)
    waits = "it is being loaded"
    assert told == [{("a", 1): waits, ("b", 2): waits}, {("a", 1): "READY", ("b", 2): waits}]
    assert _index(repository) == {("a", 1): "READY", ("b", 2): "READY"}


def test_options_of_a_model_are_what_it_is_compiled_with(tmp_path: Path, repository: Repository, fakes: Fakes) -> None:
    _write(tmp_path, "a.onnx")
    _write(tmp_path, "a.toml", 'precision = "f16"\nkeep_f32 = ["h*"]\nprepare = {x = [[1, 8], 2]}\ntimeout = 3')
    repository.refresh(settled=False)
    how = {"hint": "throughput", "batching": None, "queue_size": 2, "queue_timeout": 0, "memory_limit": 0}
    assert fakes.arguments == {"precision": "f16", "config": {"keep_f32": ("h*",)}, **how}
    assert fakes.made[0].prepared == {"x": ((1, 8), 2)}
    assert repository.get("a").seconds == 3


def test_what_changes_in_the_folder_is_served_at_the_second_look_and_what_goes_is_not(
    tmp_path: Path, repository: Repository, fakes: Fakes
) -> None:
    _write(tmp_path, "a.onnx")
    repository.refresh(settled=False)
    first = repository.get("a")
    _write(tmp_path, "a.onnx", "another model")
    _write(tmp_path, "b.onnx")
    repository.refresh()
    assert repository.get("a") is first
    assert not repository.has("b")
    repository.refresh()
    assert repository.get("a") is not first
    assert fakes.made[0].closed
    assert _run(repository, "b") == [[1, 1]]
    (tmp_path / "b.onnx").unlink()
    repository.refresh()
    assert not repository.has("b")
    assert [m.closed for m in fakes.made] == [True, False, True]
    repository.refresh()
    assert len(fakes.made) == 3


def test_a_broken_new_version_leaves_the_old_one_serving(tmp_path: Path, repository: Repository, fakes: Fakes) -> None:
    _write(tmp_path, "a/1/model.onnx")
    repository.refresh(settled=False)
    _write(tmp_path, "a/2/model.onnx", "broken")
    for _ in range(3):
        repository.refresh()
    assert _index(repository) == {("a", 1): "READY", ("a", 2): "a/2/model.onnx is broken"}
    assert repository.get("a").version == 1
    _write(tmp_path, "a/1/model.onnx", "broken, too")
    with pytest.raises(NotReadyError, match=r"version 2 of model 'a' was not loaded: a/2/model\.onnx is broken"):
        repository.load("a")
    assert _index(repository)[("a", 1)] == "a/1/model.onnx is broken"
    assert _run(repository, "a") == [[1, 1]]
    _write(tmp_path, "a/2/model.onnx", "mended")
    repository.load("a")
    assert _index(repository) == {("a", 2): "READY"}
    assert fakes.made[0].closed


def test_a_repository_that_ends_finishes_what_it_loads_and_begins_no_other(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        _write(tmp_path, f"{name}.onnx")
    made = repository._made

    def ended(*args: Any) -> Any:
        repository.end()
        return made(*args)

    monkeypatch.setattr(repository, "_made", ended)
    repository.refresh(settled=False)
    waits = "it is being loaded"
    assert _index(repository) == {("a", 1): "READY", ("b", 1): waits, ("c", 1): waits}


def test_so_many_of_the_newest_versions_are_served_as_the_options_say(tmp_path: Path, repository: Repository) -> None:
    for version in (1, 2, 10):
        _write(tmp_path, f"a/{version}/model.onnx")
    _write(tmp_path, "a/model.toml", "versions = 2")
    repository.refresh(settled=False)
    assert list(_index(repository)) == [("a", 2), ("a", 10)]
    assert repository.get("a").version == 10
    assert repository.get("a", "2").version == 2


def test_what_a_client_unloads_stays_so_until_it_is_loaded_or_changes(tmp_path: Path, repository: Repository) -> None:
    _write(tmp_path, "a/1/model.onnx")
    _write(tmp_path, "a/2/model.onnx")
    repository.refresh(settled=False)
    repository.unload("a")
    repository.refresh()
    with pytest.raises(NotReadyError, match="model 'a' is not ready: unloaded"):
        repository.get("a")
    repository.load("a")
    assert repository.get("a").version == 2
    repository.unload("a")
    _write(tmp_path, "a/2/model.onnx", "a longer model")
    repository.refresh()
    assert not repository.index(ready=True)
    repository.refresh()
    assert repository.get("a").version == 2
    for change in (repository.load, repository.unload):
        with pytest.raises(UnknownModelError, match=r"there is no model '\.\./x'"):
            change("../x")


def test_a_model_of_types_that_the_protocol_has_not_is_not_ready(
    tmp_path: Path, repository: Repository, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, "a.onnx")

    monkeypatch.setattr(FakeModel, "inputs", (Signature("x", DType.I4, (2,)),))
    repository.refresh(settled=False)
    assert _index(repository) == {("a", 1): "input 'x' is tensor(int4), which the protocol has no name for"}
    assert fakes.made[0].closed


def test_calls_above_the_queue_are_refused_and_those_taken_are_answered(
    tmp_path: Path, repository: Repository, fakes: Fakes
) -> None:
    _write(tmp_path, "a.onnx")
    repository.refresh(settled=False)
    model, fake = repository.get("a"), fakes.made[0]
    fake.gate = threading.Event()
    taken = [model.submit(X)]
    assert fake.running.wait(10)
    taken += [model.submit(X), model.submit(X)]
    assert model.throughput.waiting == 2
    with pytest.raises(QueueFullError, match="2 calls of model 'a' wait, which is as many as may"):
        model.submit(X)
    taken[2].cancel()
    fake.gate.set()
    assert [taken[i].future.result(10)["y"].tolist() for i in (0, 1)] == [[[1, 1]]] * 2
    assert taken[2].future.cancelled()
    assert model.submit(X).future.result(10)
    assert model.throughput.waiting == 0


def test_streams_run_at_the_same_time(tmp_path: Path, repository: Repository, fakes: Fakes) -> None:
    _write(tmp_path, "a.onnx")
    _write(tmp_path, "a.toml", "streams = 2")
    repository.refresh(settled=False)
    model = repository.get("a")
    with model._pool.using(model._key) as streamed:
        models: Any = [stream.model for stream in streamed.streams]
    for each in models:
        each.gate = threading.Event()
    taken = [model.submit(X), model.submit(X)]
    assert all(each.running.wait(10) for each in models)
    for each in models:
        each.gate.set()
    assert all(call.future.result(10) for call in taken)


def test_a_model_is_unloaded_when_its_calls_are_over(tmp_path: Path, repository: Repository, fakes: Fakes) -> None:
    _write(tmp_path, "a.onnx")
    repository.refresh(settled=False)
    model, fake = repository.get("a"), fakes.made[0]
    fake.gate = threading.Event()
    taken = model.submit(X)
    unloading = threading.Thread(target=repository.unload, args=("a",))
    unloading.start()
    until(lambda: model._closed)
    with pytest.raises(ClosedError, match="version 1 of model 'a' was unloaded"):
        model.submit(X)
    assert not fake.closed
    fake.gate.set()
    unloading.join(10)
    assert taken.future.result(0)["y"].tolist() == [[1, 1]]
    assert fake.closed


def test_feeds_and_outputs_that_the_model_has_not_are_refused(tmp_path: Path, repository: Repository) -> None:
    _write(tmp_path, "a.onnx")
    repository.refresh(settled=False)
    model = repository.get("a")
    with pytest.raises(InputError, match="input 'x' of model 'a' is FP32, not FP64"):
        model.submit({"x": np.zeros((1, 2))})
    with pytest.raises(InputError, match="has no input 'w'; the inputs are 'x'"):
        model.submit({**X, "w": X["x"]})
    with pytest.raises(InputError, match="has no output 'q'; the outputs are 'y', 'z'"):
        model.submit(X, ["q"])
