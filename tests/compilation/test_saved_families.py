"""Families of shapes in saved files and in the model cache: another process binds to them without a pass."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.compilation import cache_files, compiler, keeper
from clgraph.compilation import model_cache as cached
from clgraph.errors import ClgraphError, ModelError
from clgraph.families.family import Family
from clgraph.families.notes import NOTE
from clgraph.families.rules import Guards, Rule
from clgraph.families.schema import Given, Schema
from clgraph.model.save import MEMBERS
from clgraph.ops import primitive_of
from clgraph.passes.base import Context
from clgraph.saved.container import CHECKED_BYTES, Contents
from clgraph.saved.families import decode_families, encode_families
from tests.support.graphs import FLOAT
from tests.support.open_models import convolutions, open_model, reshaping
from tests.support.saved import rewritten
from tools.fuzzing.files import changed

ROOT = Path(__file__).resolve().parents[2]
SHAPES = ((2, 3, 20, 30), (3, 3, 9, 33), (2, 3, 40, 11))
WAIT = 0.06
"""Longer than ``SETTLED_SECONDS`` of these tests, which is longer than a file system's clock ticks."""

pytestmark = pytest.mark.opencl


def feed(shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)}


def results(model: clgraph.Model, shapes: Any = SHAPES) -> list[bytes]:
    return [model.run(feed(shape))["y"].tobytes() for shape in shapes]


def note(model: clgraph.Model) -> str:
    return model.program.notes.get(NOTE, "")


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
    time.sleep(cache_files.SETTLED_SECONDS + 0.2)
    code = f"""
import hashlib, sys, numpy as np, clgraph
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
    monkeypatch.setattr("clgraph.compilation.load._key", _other_key)
    assert note_of_run(compiled(), x).startswith("compiled whole: x [n, 4]: no sizes stand for the others")


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


def _other_key(data: Any) -> Any:
    from clgraph.model.specialisations import Key

    return Key(((9, 9),))


def note_of_run(model: clgraph.Model, x: np.ndarray) -> str:
    model.run({"x": x})
    return note(model)


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


@pytest.fixture
def file(device: str, tmp_path: Path) -> Path:
    """A saved model with a family, used for one shape."""
    _run_once(device).save(tmp_path / "m.clg")
    return tmp_path / "m.clg"


def test_a_loaded_model_binds_shapes_that_the_saved_one_never_met(device: str, file: Path, tmp_path: Path) -> None:
    wanted = results(clgraph.compile(convolutions(), device))
    loaded = clgraph.load(file, device)
    assert loaded.is_compiled
    assert results(loaded) == wanted
    assert loaded.notes == ("as saved: no pass was run",) * 3
    loaded.save(tmp_path / "again.clg")
    again = clgraph.load(tmp_path / "again.clg", device)
    assert results(again, SHAPES[::-1]) == wanted[::-1]
    assert set(again.notes) == {"as saved: no pass was run"}


def test_members_asked_for_last_are_run_as_they_are_saved(
    device: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = results(_run_once(device), SHAPES[:1])
    monkeypatch.setattr("clgraph.saved.families.decode_families", None)
    loaded = clgraph.load(file, device)
    assert results(loaded, SHAPES[:1]) == wanted
    assert note(loaded).startswith("bound")


def test_a_reshaped_model_of_a_fixed_shape_is_no_member(device: str, file: Path) -> None:
    fixed = clgraph.load(file, device).reshape({"x": SHAPES[0]})
    whole = clgraph.compile(convolutions(), device, shapes={"x": SHAPES[0]})
    assert results(fixed, SHAPES[:1]) == results(whole, SHAPES[:1])
    assert not note(fixed)
    assert fixed.passes


def test_a_file_has_no_program_for_each_member(device: str, file: Path, tmp_path: Path) -> None:
    loaded = clgraph.load(file, device)
    results(loaded, [(2, 3, size, size) for size in range(8, 16)])
    loaded.save(tmp_path / "more.clg")
    # Weights that some members have asked for in other formats may come on top: fewer than there are in all.
    weights = sum(v.constant.nbytes for v in loaded.program.constants if v.constant is not None)
    assert (tmp_path / "more.clg").stat().st_size < file.stat().st_size + weights
    assert sum(program["bound"] for program in Contents(tmp_path / "more.clg").header["programs"]) == MEMBERS


@pytest.mark.parametrize("source", [convolutions, lambda: products(3)], ids=["convolutions", "products"])
def test_a_family_comes_back_with_all_that_it_holds(device: str, tmp_path: Path, source: Callable[[], Any]) -> None:
    """What is added to a family must be added to files: a default in its place would be another family."""
    model = clgraph.compile(source(), device)
    shape = SHAPES[0] if source is convolutions else (5, 64)
    model.prepare({"x": shape})
    model.save(tmp_path / "m.clg")
    families = [next(iter(m.compiled.values())).families for m in (model, clgraph.load(tmp_path / "m.clg", device))]
    (mine,), (theirs,) = (found.all().values() for found in families if found is not None)
    assert isinstance(mine, Family)
    assert isinstance(theirs, Family)
    for f in fields(Family):
        if f.name not in ("recipe", "context", "packings", "made", "passes"):
            assert getattr(theirs, f.name) == getattr(mine, f.name)
    assert [row[:3] for row in theirs.passes] == [row[:3] for row in mine.passes]
    assert len(theirs.packings.made) == len(mine.packings.made)
    recipe, other = mine.recipe, theirs.recipe
    assert {f.name for f in fields(recipe)} == {"program", "rules", "guards", "constants"}
    # Why implementations were chosen is not kept.
    assert str(other.program) == re.sub(r"(  # \S+) \(.*\)$", r"\1 ()", str(recipe.program), flags=re.MULTILINE)
    assert other.constants.keys() == recipe.constants.keys()
    for f in fields(Guards):
        assert getattr(other.guards, f.name) == getattr(recipe.guards, f.name)
    for rule, found in zip(recipe.rules, other.rules, strict=True):
        for f in fields(Rule):
            if f.name != "node":
                assert getattr(found, f.name) == getattr(rule, f.name)
        assert (found.node.name, found.node.primitive) == (rule.node.name, rule.node.primitive)
    assert source is convolutions or any(rule.twin is not None for rule in recipe.rules)


def products(count: int) -> onnx.ModelProto:
    """Equal problems one behind the other."""
    names = ["x", *(f"t{i}" for i in range(1, count)), "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(count)]
    weights = {f"w{i}": np.full((64, 64), i, np.float32) for i in range(count)}
    return open_model(nodes, {"x": (FLOAT, ("n", 64))}, weights)


def test_a_schema_comes_back_whatever_it_fixes() -> None:
    given = Given("ends", "<i8", (2,), ("x.0", 3), count_of="x"), Given("scale", "<f4", (), (), b"abcd")
    schema = Schema(("x", "past"), (("n", 3), ("n", "k")), given, (("k", "n", 2),))
    families = {schema: "no sizes stand for the others"}
    written = json.loads(json.dumps(encode_families(families, _none)))
    assert decode_families(written, _none, Context(), primitive_of) == families
    assert {f.name for f in fields(Schema)} == {"names", "shapes", "values", "sums"}


def _none(array: Any) -> Any:
    raise AssertionError("there are no arrays")


def _run_once(device: str) -> clgraph.Model:
    model = clgraph.compile(convolutions(), device)
    results(model, SHAPES[:1])
    return model


@pytest.mark.parametrize("options", [{"threads": 3}, {"config": {"winograd": False}}])
def test_elsewhere_families_are_made_anew_and_the_note_says_so(device: str, file: Path, options: Any) -> None:
    loaded = clgraph.load(file, device, **options)
    assert "compiled anew: " in loaded.notes[0]
    assert ("workers" if "threads" in options else "options") in loaded.notes[0]
    for found, wanted in zip(results(loaded), results(clgraph.compile(convolutions(), device)), strict=True):
        # Sums of at most 48 * 9 products of numbers around 1, in another order.
        mine, theirs = np.frombuffer(found, np.float32), np.frombuffer(wanted, np.float32)
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-4)


def test_where_passes_are_to_be_verified_they_run(device: str, file: Path) -> None:
    loaded = clgraph.load(file, device, config={"verify_passes": True})
    assert "to be dumped or verified" in loaded.notes[0]
    assert loaded.passes


def _of_family(change: Callable[[Any], None]) -> Callable[[Any], None]:
    def forge(header: Any) -> None:
        row = next(row for row in header["families"]["known"] if row[2])
        family = json.loads(row[2])
        change(family)
        row[2] = json.dumps(family)

    return forge


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["families"].__setitem__("format", 99),
        lambda h: h["families"].__setitem__("known", [[]]),
        lambda h: h["families"].__setitem__("known", 3),
        lambda h: h["families"].__setitem__("circumstances", 3),
        lambda h: h["families"].__setitem__("notes", 3),
        lambda h: h["families"]["known"][0].__setitem__(0, [["x"], [["a", {}]], []]),
        lambda h: h["families"]["known"][0].__setitem__(2, "{"),
        _of_family(lambda f: f["rules"].pop()),
        _of_family(lambda f: f["rules"][0].__setitem__(0, [999])),
        _of_family(lambda f: f["rules"][0].__setitem__(5, [])),
        _of_family(lambda f: f["rules"][0].__setitem__(1, 5)),
        _of_family(lambda f: f["rules"][1].__setitem__(6, 1)),
        _of_family(lambda f: f.__setitem__("guards", [[], [], [], [["c", [99, "F32", [1]]]]])),
        _of_family(lambda f: f.__setitem__("packings", [[0, ["d", "F32"], [0, "F32", [1]]]])),
        _of_family(lambda f: f.__setitem__("layers", [[1]])),
        _of_family(lambda f: f["program"].__setitem__("format", 0)),
    ],
)
def test_foreign_families_are_a_model_error(device: str, file: Path, change: Callable[[Any], None]) -> None:
    forged = rewritten(file, change)
    with pytest.raises(ModelError):
        results(clgraph.load(forged, device), SHAPES[1:2])


def test_whatever_a_family_with_a_fitting_checksum_says_is_read_or_one_error(tmp_path: Path) -> None:
    model = clgraph.compile(reshaping(), device="host")
    model.prepare({"x": (4, 6)}, {"shape": [8, 3]})
    model.save(tmp_path / "m.clg")
    content = (tmp_path / "m.clg").read_bytes()
    for seed in range(200):
        (tmp_path / "m.clg").unlink()
        (tmp_path / "m.clg").write_bytes(content)

        def forge(header: Any, seed: int = seed) -> None:
            header["families"] = changed(header["families"], np.random.default_rng(seed))

        def forge_inside(header: Any, seed: int = seed) -> None:
            _of_family(lambda f: f.update(changed(f, np.random.default_rng(seed))))(header)

        path = rewritten(tmp_path / "m.clg", forge if seed % 4 == 0 else forge_inside)
        with contextlib.suppress(ClgraphError), clgraph.load(path, device="host") as loaded:
            loaded.prepare({"x": (5, 6)}, {"shape": [10, 3]})
