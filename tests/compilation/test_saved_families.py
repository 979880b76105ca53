"""Families of shapes in saved files: what is loaded binds to them without a pass."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.families.family import Family
from clgraph.families.rules import Guards, Rule
from clgraph.families.schema import Given, Schema
from clgraph.graph.primitive import primitive_of
from clgraph.model.specialisations import MEMBERS
from clgraph.passes.base import Context
from clgraph.saved.container import Contents
from clgraph.saved.families import decode_families, encode_families
from tests.support.graphs import FLOAT, INT, graph
from tests.support.graphs import model as graph_model
from tests.support.open_models import convolutions, open_model
from tests.support.saved_families import SHAPES, note, results, used_once

pytestmark = pytest.mark.opencl


def test_a_loaded_model_binds_shapes_that_the_saved_one_never_met(
    device: str, family_file: Path, tmp_path: Path
) -> None:
    wanted = results(clgraph.compile(convolutions(), device))
    loaded = clgraph.load(family_file, device)
    assert loaded.is_compiled
    assert results(loaded) == wanted
    assert loaded.notes == ("as saved: no pass was run",) * 3
    loaded.save(tmp_path / "again.clg")
    again = clgraph.load(tmp_path / "again.clg", device)
    assert results(again, SHAPES[::-1]) == wanted[::-1]
    assert set(again.notes) == {"as saved: no pass was run"}


def test_members_asked_for_last_are_run_as_they_are_saved(
    device: str, family_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = results(used_once(device), SHAPES[:1])
    monkeypatch.setattr("clgraph.saved.families.decode_families", None)
    loaded = clgraph.load(family_file, device)
    assert results(loaded, SHAPES[:1]) == wanted
    assert note(loaded).startswith("bound")


def test_a_reshaped_model_of_a_fixed_shape_is_no_member(device: str, family_file: Path) -> None:
    fixed = clgraph.load(family_file, device).reshape({"x": SHAPES[0]})
    whole = clgraph.compile(convolutions(), device, shapes={"x": SHAPES[0]})
    assert results(fixed, SHAPES[:1]) == results(whole, SHAPES[:1])
    assert not note(fixed)
    assert fixed.passes


def test_a_file_has_no_program_for_each_member(device: str, family_file: Path, tmp_path: Path) -> None:
    loaded = clgraph.load(family_file, device)
    results(loaded, [(2, 3, size, size) for size in range(8, 16)])
    loaded.save(tmp_path / "more.clg")
    # Weights that some members have asked for in other formats may come on top: fewer than there are in all.
    weights = sum(v.constant.nbytes for v in loaded.program.constants if v.constant is not None)
    assert (tmp_path / "more.clg").stat().st_size < family_file.stat().st_size + weights
    assert sum(program["bound"] for program in Contents(tmp_path / "more.clg").header["programs"]) == MEMBERS


@pytest.mark.parametrize(
    "source", [convolutions, lambda: products(3), lambda: sizes()], ids=["convolutions", "products", "sizes"]
)
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
    if len(recipe.rules) == 3:
        assert any(rule.twin is not None for rule in recipe.rules)
    assert bool(recipe.guards.results) == (len(recipe.rules) == 1)


def test_the_problems_of_a_loaded_representative_are_read_once(device: str, family_file: Path) -> None:
    """Every member asks for them, and to read them takes as long as all the rest of a binding."""
    loaded = clgraph.load(family_file, device)
    loaded.prepare({"x": (2, 3, 9, 9)})
    families = next(iter(loaded.compiled.values())).families
    assert families is not None
    found = [f for f in families.all().values() if isinstance(f, Family)]
    choices = [taken.choice for family in found for taken in family.recipe.taken]
    assert choices
    assert all(choice.query is choice.query for choice in choices)


def sizes() -> onnx.ModelProto:
    """A result that sizes alone decide."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Shape", ["x"], ["s"])]
    of = graph(nodes, [("x", FLOAT, ("n", 64))], [("y", FLOAT, ("n", 64)), ("s", INT, (2,))])
    return graph_model(of)


def products(count: int) -> onnx.ModelProto:
    """Equal problems one behind the other."""
    names = ["x", *(f"t{i}" for i in range(1, count)), "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(count)]
    weights = {f"w{i}": np.full((64, 64), i, np.float32) for i in range(count)}
    return open_model(nodes, {"x": (FLOAT, ("n", 64))}, weights)


def test_a_schema_comes_back_whatever_it_fixes() -> None:
    given = Given("ends", "<i8", (2,), ("x.0", 3), count_of="x"), Given("scale", "<f4", (), (), b"abcd")
    schema = Schema(("x", "past"), (("n", 3), ("n", "k")), given, (("k", "n", 2),), most_pixels=4096)
    families = {schema: "no sizes stand for the others"}
    written = json.loads(json.dumps(encode_families(families, _none)))
    assert decode_families(written, _none, Context(), primitive_of) == families
    assert {f.name for f in fields(Schema)} == {"names", "shapes", "values", "sums", "most_pixels"}


def _none(array: Any) -> Any:
    raise AssertionError("there are no arrays")


@pytest.mark.parametrize("options", [{"threads": 3}, {"config": {"winograd": False}}])
def test_elsewhere_families_are_made_anew_and_the_note_says_so(device: str, family_file: Path, options: Any) -> None:
    loaded = clgraph.load(family_file, device, **options)
    assert "compiled anew: " in loaded.notes[0]
    assert ("workers" if "threads" in options else "options") in loaded.notes[0]
    for found, wanted in zip(results(loaded), results(clgraph.compile(convolutions(), device)), strict=True):
        # Sums of at most 48 * 9 products of numbers around 1, in another order.
        mine, theirs = np.frombuffer(found, np.float32), np.frombuffer(wanted, np.float32)
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-4)


def test_where_passes_are_to_be_verified_they_run(device: str, family_file: Path) -> None:
    loaded = clgraph.load(family_file, device, config={"verify_passes": True})
    assert "to be dumped or verified" in loaded.notes[0]
    assert loaded.passes
