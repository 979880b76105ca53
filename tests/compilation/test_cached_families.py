"""Families of shapes in the model cache: another process binds to them without a pass."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.compilation import cache_files, compiler, keeper
from clgraph.compilation import model_cache as cached
from clgraph.saved.container import CHECKED_BYTES
from tests.support.graphs import FLOAT
from tests.support.open_models import convolutions, open_model, reshaping
from tests.support.saved_families import SHAPES, note, results

ROOT = Path(__file__).resolve().parents[2]
WAIT = 0.06
"""Longer than ``SETTLED_SECONDS`` of these tests, which is longer than a file system's clock ticks."""

pytestmark = pytest.mark.opencl


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files settle soon, entries are written at once, and what other tests registered is none of these."""
    monkeypatch.setattr(cache_files, "SETTLED_SECONDS", WAIT / 2)
    monkeypatch.setattr(keeper.Later, "start", keeper.Later.finish)
    monkeypatch.setattr(cached, "third_party", frozenset)


@pytest.fixture
def compiled(device: str, tmp_path: Path, at_once: None) -> Callable[..., clgraph.Model]:
    def make(source: onnx.ModelProto | None = None, **arguments: Any) -> clgraph.Model:
        path = tmp_path / "m.onnx"
        if source is not None:
            onnx.save(source, path)
            time.sleep(WAIT)
        config = {"model_cache": 64, **arguments.pop("config", {})}
        return clgraph.compile(path, device, cache_dir=tmp_path / "cache", config=config, **arguments)

    return make


def entry(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "cache" / "compiled").glob("*.clg")
    return found


def test_another_process_binds_any_shape_without_a_pass_or_the_file(device: str, tmp_path: Path) -> None:
    onnx.save(convolutions(), tmp_path / "m.onnx")
    time.sleep(WAIT)
    code = f"""
import hashlib, sys, numpy as np, clgraph
from clgraph.compilation import cache_files
cache_files.SETTLED_SECONDS = {WAIT / 2}
clgraph.devices()  # opens the drivers with kernels that are compiled already; the folder is for the model alone
model = clgraph.compile("m.onnx", {device!r}, cache_dir="cache", config={{"model_cache": 64}})
for shape in {SHAPES}[int(sys.argv[1]):]:
    y = model.run({{"x": np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)}})["y"]
    print(hashlib.sha256(y.tobytes()).hexdigest(), model.program.notes["family"].partition(" in ")[0], *model.notes)
print(*sys.modules)
"""

    def run(first: int) -> tuple[list[str], set[str]]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", code, str(first)]
        out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment).stdout
        *lines, modules = out.splitlines()
        return lines, set(modules.split())

    # The first process keeps its family at its end, after one shape; the others are new to the second.
    first, compiling = run(2)
    assert compiling.isdisjoint({"onnx", "pyopencl", "importlib.metadata"}), "they take a fifth of a start"
    second, modules = run(0)
    assert all(line.split()[1] == "bound" for line in [*first, *second])
    assert all("out of the model cache: no pass was run" in line for line in second)
    assert second[2].split()[0] == first[0].split()[0]
    assert {"clgraph.families.binding", "clgraph.saved.families"} <= modules
    assert modules.isdisjoint({"onnx.onnx_ml_pb2", "clgraph.frontend.onnx_loader", "clgraph.passes.pipeline"})
    assert modules.isdisjoint({"pyopencl", "importlib.metadata"}), "they take a third of a start"
    whole = clgraph.compile(convolutions(), device)
    assert [line.split()[0] for line in second] == [hashlib.sha256(y).hexdigest() for y in results(whole)]


def test_an_entry_has_the_families_of_all_shapes_asked_for(
    compiled: Callable[..., clgraph.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compiled(convolutions())
    wanted = results(first, SHAPES[:1])
    # Another family, for a batch of 1: made in a process that has the first out of the cache.
    second = compiled()
    one = results(second, [(1, 3, 12, 13)])
    assert "bound" in note(second)
    assert "compiled anew: the file holds no program" in second.notes[0]
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "Compiler", None)
        third = compiled()
        assert results(third, [(1, 3, 12, 13)]) == one
        assert results(third, SHAPES[:1]) == wanted
        assert third.notes == ("out of the model cache: no pass was run",) * 2


def test_a_shape_that_has_no_family_is_kept_whole_and_not_tried_again(
    compiled: Callable[..., clgraph.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = open_model(
        [helper.make_node("Reshape", ["x", "to"], ["r"]), helper.make_node("Relu", ["r"], ["y"])],
        {"x": (FLOAT, ("n", 4))},
        {"to": np.array([3, 4])},
    )
    x = np.ones((3, 4), np.float32)
    wanted = compiled(fixed).run({"x": x})["y"]
    again = compiled()
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "Compiler", None)
        np.testing.assert_array_equal(again.run({"x": x})["y"], wanted)
    assert note(again).startswith("compiled whole: x [n, 4]: no sizes stand for the others")
    # Where the program is not there, the refusal still is.
    monkeypatch.setattr("clgraph.families.making.make_family", None)
    monkeypatch.setattr("clgraph.compilation.saved_programs._key", _other_key)
    assert note_of_run(compiled(), x).startswith("compiled whole: x [n, 4]: no sizes stand for the others")


def _other_key(data: Any) -> Any:
    from clgraph.model.keys import Key

    return Key(((9, 9),))


def note_of_run(model: clgraph.Model, x: np.ndarray) -> str:
    model.run({"x": x})
    return note(model)


def test_programs_that_were_kept_before_are_kept_with_new_ones(
    compiled: Callable[..., clgraph.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (FLOAT, ("n", 4))})
    results(compiled(model), [(0, 4)])
    results(compiled(), [(1, 4)])
    monkeypatch.setattr(compiler, "Compiler", None)
    again = compiled()
    results(again, [(0, 4), (1, 4)])
    assert note(again).startswith("compiled whole")
    assert again.notes == ("out of the model cache: no pass was run",) * 2


def test_fed_shapes_are_bound_out_of_the_cache(
    compiled: Callable[..., clgraph.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(model: clgraph.Model, rows: int, shape: tuple[int, ...]) -> None:
        x = np.random.default_rng(0).standard_normal((rows, 6)).astype(np.float32)
        found = model.run({"x": x, "shape": np.array(shape)})["y"]
        np.testing.assert_array_equal(found, np.maximum(x, 0).reshape(shape))
        assert note(model).startswith("bound")

    run(compiled(reshaping()), 4, (8, 3))
    monkeypatch.setattr(compiler, "Compiler", None)
    again = compiled()
    run(again, 10, (4, 15))
    run(again, 12, (8, 9))


def test_a_batch_in_slices_is_bound_out_of_the_cache(
    compiled: Callable[..., clgraph.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clgraph.families.family.fastest_slices", lambda program, device: 2)
    shape = (6, 3, 20, 21)
    first = compiled(convolutions())
    wanted = results(first, [shape])
    assert first.program.batch_slices == 2
    monkeypatch.setattr(compiler, "Compiler", None)
    again = compiled()
    assert results(again, [shape]) == wanted
    assert again.program.batch_slices == 2


def damage(path: Path, part: str) -> None:
    """Change a byte of a constant that a family in *path* refers to by its part."""
    data = bytearray(path.read_bytes())
    nbytes = int.from_bytes(data[16:24], "little")
    header = json.loads(data[64 : 64 + nbytes])
    family = json.loads(next(text for _, _, text in header["families"]["known"] if text))
    rows = family["program"]["values"] if part == "program" else family["constants"]
    held = [row[2] if part == "program" else row[1] for row in rows]
    blob = next(b for b in (header["blobs"][h[0]] for h in held if h is not None) if b[1] <= CHECKED_BYTES)
    at = 64 + nbytes + -nbytes % 64 + blob[0]
    data[at] ^= 0x55
    path.write_bytes(data)


def test_a_damaged_family_is_made_anew_and_kept_again(
    compiled: Callable[..., clgraph.Model], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = results(compiled(convolutions()))
    damage(entry(tmp_path), "program")
    time.sleep(0.02)
    with caplog.at_level(logging.WARNING, "clgraph"):
        again = compiled()
        assert results(again) == wanted
    assert "is damaged" in caplog.text
    assert "compiled anew" in again.notes[0]
    third = compiled()
    assert results(third) == wanted
    assert set(third.notes) == {"out of the model cache: no pass was run"}


def test_a_stream_of_shapes_of_one_family_writes_its_entry_once(
    compiled: Callable[..., clgraph.Model], tmp_path: Path
) -> None:
    model = compiled(convolutions())
    results(model, SHAPES[:1])
    before = entry(tmp_path).stat()
    results(model, SHAPES)
    results(compiled(), SHAPES)
    assert entry(tmp_path).stat().st_ino == before.st_ino
