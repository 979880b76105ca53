"""A closed model that nobody holds goes at once, with its arrays and mapped files: nothing waits for the collector.

Python's collector counts objects and not bytes, and a process that has compiled once seldom walks through all there is.
"""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.compilation import cache_files, keeper, model_cache
from tests.support.graphs import FLOAT
from tests.support.open_models import open_model

pytestmark = pytest.mark.opencl

WAIT = 0.06
WEIGHT = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
ROWS = [{"x": np.ones((n, 64), np.float32)} for n in (2, 5)]
Work = Callable[[Path, str], None]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files settle soon, entries are written at once, and what other tests registered is none of these."""
    monkeypatch.setattr(cache_files, "SETTLED_SECONDS", WAIT / 2)
    monkeypatch.setattr(keeper.Later, "start", keeper.Later.finish)
    monkeypatch.setattr(model_cache, "third_party", frozenset)


def cached(path: Path, device: str) -> None:
    with clgraph.compile(path, device, config={"model_cache": 64}, cache_dir=path.parent) as model:
        for rows in ROWS:
            model.run(rows)


def compiled(path: Path, device: str) -> None:
    with clgraph.compile(path, device, config={"model_cache": 0}) as model, model.clone() as clone:
        for rows in ROWS:
            model.run(rows)
            clone.run(rows)


def loaded(path: Path, device: str) -> None:
    with clgraph.compile(path, device, config={"model_cache": 0}) as model:
        model.run(ROWS[0])
        model.save(path.with_suffix(".clg"))
    with clgraph.load(path.with_suffix(".clg"), device=device) as model:
        assert model.topology.layers
        for rows in ROWS:
            model.run(rows)


def in_streams(path: Path, device: str) -> None:
    with clgraph.compile(path, device, hint="throughput", streams=1, config={"model_cache": 0}) as model:
        for future in [model.submit(rows) for rows in ROWS]:
            future.result(60)


def asynchronous(path: Path, device: str) -> None:
    with clgraph.compile(path, device, config={"model_cache": 0}) as model:
        for future in [model.run_async(rows) for rows in ROWS]:
            future.result(60)


def pooled(path: Path, device: str) -> None:
    with clgraph.Pool("1 GiB", device=device, config={"model_cache": 64}, cache_dir=path.parent) as pool:
        pool.add("m", path)
        for rows in ROWS:
            pool.run("m", rows)
            assert pool.evict("m")


@pytest.mark.parametrize("staged", [False, True], ids=["whole", "staged"])
@pytest.mark.parametrize("work", [cached, compiled, loaded, in_streams, asynchronous, pooled])
def test_a_model_leaves_nothing_to_the_collector(work: Work, staged: bool, device: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model_of(staged), path)
    time.sleep(WAIT)
    work(path, device)  # what it imports, keeps for the process, and finds in the cache the next time
    gc.collect()
    gc.disable()
    try:
        work(path, device)
        assert left() == set()
    finally:
        gc.enable()


def test_what_a_model_has_compiled_is_in_the_cache_once_it_is_closed_and_held_no_longer(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model_of(staged=False), path)
    time.sleep(WAIT)
    monkeypatch.setattr(keeper.Later, "start", lambda later: None)
    with clgraph.compile(path, device, config={"model_cache": 64}, cache_dir=tmp_path) as model:
        model.run(ROWS[0])
        (packed,) = [weakref.ref(v.constant) for v in model.program.constants if v.constant.nbytes >= WEIGHT.nbytes]
    assert list((tmp_path / "compiled").glob("*.clg"))
    del model
    assert packed() is None


def model_of(staged: bool) -> onnx.ModelProto:
    """Return a product; *staged*, one more with as many columns as the first has positive numbers."""
    node = helper.make_node
    nodes = [node("MatMul", ["x", "w"], ["t"]), node("Relu", ["t"], ["r"])]
    if staged:
        nodes += [
            node("NonZero", ["r"], ["places"]),
            node("Cast", ["places"], ["f"], to=FLOAT),
            node("MatMul", ["m", "f"], ["p"]),
        ]
    nodes.append(node("Softmax", [nodes[-1].output[0]], ["y"]))
    return open_model(nodes, {"x": (FLOAT, ("n", 64))}, {"w": WEIGHT, **({"m": WEIGHT[:, :2]} if staged else {})})


def left() -> set[str]:
    """Collect garbage, and return the classes of clgraph and the arrays in it."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        kinds = {type(o) for o in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    return {k.__qualname__ for k in kinds if k is np.ndarray or k.__module__.startswith("clgraph.")}
