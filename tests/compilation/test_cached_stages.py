"""Stages are in the model cache, each as an entry of its own: a process that finds them compiles nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.compilation import cache_files, keeper, model_cache
from clgraph.passes.manager import PassManager
from tests.support.graphs import FLOAT
from tests.support.open_models import open_model

pytestmark = pytest.mark.opencl

WAIT = 0.06
SHAPES = ((1, 3, 20, 30), (1, 3, 17, 9))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files settle soon, entries are written at once, and what other tests registered is none of these."""
    monkeypatch.setattr(cache_files, "SETTLED_SECONDS", WAIT / 2)
    monkeypatch.setattr(keeper.Later, "start", keeper.Later.finish)
    monkeypatch.setattr(model_cache, "third_party", frozenset)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A model whose second stage has as many columns as the first one makes positive numbers."""
    random = np.random.default_rng(0)
    node = helper.make_node
    model = open_model(
        [
            node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
            node("Relu", ["c"], ["r"]),
            node("NonZero", ["r"], ["places"]),
            node("Cast", ["places"], ["f"], to=FLOAT),
            node("MatMul", ["m", "f"], ["p"]),
            node("Softmax", ["p"], ["y"]),
        ],
        {"x": (FLOAT, ("n", 3, "h", "w"))},
        {name: random.standard_normal(s).astype(np.float32) for name, s in (("w", (16, 3, 3, 3)), ("m", (64, 4)))},
    )
    path = tmp_path / "staged.onnx"
    onnx.save(model, path)
    time.sleep(WAIT)
    return path


def run(file: Path, device: str, shapes: Any = SHAPES) -> list[bytes]:
    """Compile *file* and return the results for inputs of *shapes*."""
    model = clgraph.compile(file, device, cache_dir=file.parent / "cache", config={"model_cache": 64})
    images = [np.random.default_rng(1).standard_normal(shape).astype(np.float32) for shape in shapes]
    return [model.run({"x": x})["y"].tobytes() for x in images]


def entries(file: Path) -> list[Path]:
    return sorted((file.parent / "cache" / "compiled").glob("*.clg"))


def test_stages_out_of_the_cache_are_bound_without_a_pass(
    device: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = (*SHAPES, (2, 3, 11, 12))
    want = run(file, device, more)
    assert len(entries(file)) == 2
    monkeypatch.setattr(PassManager, "run", lambda *_: pytest.fail("a pass was run"))
    assert run(file, device, more[:1]) == want[:1]
    assert run(file, device, more[::-1]) == want[::-1]


def test_a_stage_whose_entry_is_damaged_is_compiled_anew(device: str, file: Path) -> None:
    want = run(file, device)
    for path in entries(file):
        path.write_bytes(path.read_bytes()[:-100])
    assert run(file, device) == want
    assert run(file, device) == want


def test_another_file_has_stages_of_its_own(device: str, file: Path) -> None:
    first = run(file, device)
    model = onnx.load(file)
    (weights,) = [t for t in model.graph.initializer if t.name == "m"]
    weights.raw_data = (2 * np.frombuffer(weights.raw_data, np.float32)).tobytes()
    onnx.save(model, file)
    time.sleep(WAIT)
    assert run(file, device) != first
    assert len(entries(file)) == 4


def test_a_saved_model_holds_what_is_compiled_of_its_stages(
    device: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = (*SHAPES, (1, 3, 11, 12))
    want = run(file, device, more)
    model = clgraph.compile(file, device, config={"model_cache": 0})
    for shape in SHAPES:
        model.run({"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)})
    saved = file.with_suffix(".clg")
    model.save(saved)
    with monkeypatch.context() as patched:
        patched.setattr(PassManager, "run", lambda *_: pytest.fail("a pass was run"))
        assert run(saved, device, more) == want
    loaded = clgraph.load(saved, device)
    loaded.save(saved)
    assert run(saved, device) == want[:2]
    # Other shapes make other stages, which are compiled.
    other = clgraph.load(saved, device).reshape({"x": (1, 3, 20, 30)})
    x = np.random.default_rng(1).standard_normal(SHAPES[0]).astype(np.float32)
    assert other.run({"x": x})["y"].tobytes() == want[0]
