"""Small stages whose shapes come again are compiled once that pays, and only where it does."""

from __future__ import annotations

import logging
from math import inf

import numpy as np
import pytest

import clgraph
from clgraph.errors import UnsupportedError
from clgraph.graph.interpret import interpret
from clgraph.graph.topology import Topology
from clgraph.model.stages import repeats
from clgraph.model.stages.compiled_piece import CompiledPiece
from clgraph.model.stages.host_plan import OPERATION_SECONDS, PLANNED, RUN_SECONDS, SPELLED_SECONDS
from clgraph.model.stages.model import StagedModel
from clgraph.ops.activation import ERF_SECONDS, Activation
from clgraph.ops.gather import Gather
from clgraph.ops.non_zero import NonZero

pytestmark = pytest.mark.opencl

LAYERS = 60
"""Of the stage behind NonZero."""

X = np.linspace(-1, 1, 24, dtype=np.float32)


def waves(layers: int = LAYERS) -> Topology:
    """Return *layers* less one sines of those of 24 numbers that are positive."""
    t = Topology()
    x = t.input("x", (24,))
    places = t.add("places", NonZero(), t.add("positive", Activation("relu"), x))
    last = t.add("picked", Gather(0), x, places)
    for i in range(layers - 1):
        last = t.add(f"sin{i}", Activation("sin"), last)
    t.output("y", last)
    return t


def turned(by: int) -> np.ndarray:
    """Return numbers of which 12 - by are positive."""
    return (X - np.float32(by / 12)).astype(np.float32)


def behind(model: StagedModel) -> str:
    """Return what ran the stage behind NonZero."""
    return model.notes[-1].split("; ", 1)[1]


def same(model: StagedModel, x: np.ndarray) -> np.ndarray:
    """Return what *model* makes of x, which is as the references have it."""
    found = model.run({"x": x})["y"]
    # Each sine is off by 4 ulps of numbers below 1 at most, and makes no error of its argument larger.
    np.testing.assert_allclose(found, interpret(waves(), {"x": x})["y"], rtol=0, atol=2 * 4 * LAYERS * 2.0**-24)
    return found


def runs_until_compiled(model: StagedModel, x: np.ndarray, most: int = 2000) -> int:
    for count in range(1, most):
        same(model, x)
        if behind(model).startswith("compiled"):
            return count
    raise AssertionError(behind(model))


def test_shapes_that_come_again_are_compiled_once_the_host_has_spent_as_much(device) -> None:
    model = clgraph.compile(waves(), device=device)
    count = runs_until_compiled(model, X)
    compiling, binding = (once + each * LAYERS for once, each in (repeats.COMPILING_SECONDS, repeats.BINDING_SECONDS))
    saved = LAYERS * (SPELLED_SECONDS + np.count_nonzero(X > 0) * OPERATION_SECONDS) - RUN_SECONDS
    assert compiling / saved <= count <= 1.1 * compiling / saved + 3
    before = same(model, X)
    same(model, turned(3))
    assert behind(model).startswith("on the host")
    assert runs_until_compiled(model, turned(3)) <= 1.1 * binding / saved + 3
    np.testing.assert_array_equal(same(model, X), before)
    assert behind(model).startswith("compiled")


@pytest.mark.parametrize("function", ["erf", "gelu"])
def test_an_error_function_of_many_elements_is_compiled(device, function) -> None:
    t = Topology()
    x = t.input("x", (4000,))
    picked = t.add("picked", Gather(0), x, t.add("places", NonZero(), x))
    t.output("y", t.add("last", Activation(function), picked))
    model, x = clgraph.compile(t, device=device), np.linspace(1, 2, 4000, dtype=np.float32)
    saved = 4000 * ERF_SECONDS - RUN_SECONDS
    most = PLANNED + 1.1 * (repeats.COMPILING_SECONDS[0] + 3 * repeats.COMPILING_SECONDS[1]) / saved
    for _ in range(int(most)):
        model.run({"x": x})
    assert behind(model).startswith("compiled")


def test_the_same_calls_give_the_same_bits_and_clones_count_with_the_model(device, monkeypatch) -> None:
    monkeypatch.setattr(repeats, "COMPILING_SECONDS", (1e-3, 0.0))
    monkeypatch.setattr(repeats, "BINDING_SECONDS", (1e-3, 0.0))
    order = [turned(by) for by in (0, 3, 3, 0, 0, 5) * 12]
    first, second = (clgraph.compile(waves(), device=device) for _ in range(2))
    for x in order:
        np.testing.assert_array_equal(same(first, x), same(second, x))
    assert behind(first) == behind(second)
    runs_until_compiled(first, X)
    clone = first.clone()
    np.testing.assert_array_equal(same(clone, X), same(first, X))
    assert behind(clone).startswith("compiled")


def test_deterministic_stages_stay_where_they_are(device, monkeypatch) -> None:
    monkeypatch.setattr(repeats, "COMPILING_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(repeats, "BINDING_SECONDS", (0.0, 0.0))
    model = clgraph.compile(waves(), device=device, config={"deterministic": True})
    first = same(model, X)
    for _ in range(10):
        np.testing.assert_array_equal(same(model, X), first)
    assert behind(model).startswith("on the host")
    assert runs_until_compiled(clgraph.compile(waves(), device=device), X) < 10


def test_stages_that_programs_would_not_compute_sooner_stay_on_the_host(device, monkeypatch) -> None:
    """A run behind one of other shapes takes longer than 6 steps on a few numbers."""
    model = clgraph.compile(waves(6), device=device)
    for i in range(700):
        model.run({"x": turned(i % 3)})
        assert behind(model).startswith("on the host")
    monkeypatch.setattr(repeats, "COMPILING_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(repeats, "BINDING_SECONDS", (0.0, 0.0))
    slow, asked = clgraph.compile(waves(), device=device), []
    monkeypatch.setattr(CompiledPiece, "prepare", lambda self, feeds: asked.append(feeds) or inf)
    for _ in range(10):
        same(slow, X)
    assert len(asked) == 1
    assert behind(slow).startswith("on the host")


def test_a_stage_that_cannot_be_compiled_stays_on_the_host(device, monkeypatch, caplog) -> None:
    monkeypatch.setattr(repeats, "COMPILING_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(repeats, "BINDING_SECONDS", (0.0, 0.0))

    def refuse(self: CompiledPiece, feeds: object) -> float:
        raise UnsupportedError("no sine")

    monkeypatch.setattr(CompiledPiece, "prepare", refuse)
    model = clgraph.compile(waves(), device=device)
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            same(model, X)
    assert behind(model).startswith("on the host")
    (message,) = [r.getMessage() for r in caplog.records if "no sine" in r.getMessage()]
    assert message.startswith("stage_2: the host goes on computing it, because it cannot be compiled: ")


def test_what_memory_has_no_room_for_goes_back_to_the_host(device, monkeypatch) -> None:
    """Else each of several shapes in turn would be bound anew."""
    monkeypatch.setattr(repeats, "COMPILING_SECONDS", (1e-3, 0.0))
    monkeypatch.setattr(repeats, "BINDING_SECONDS", (1e-3, 0.0))
    model = clgraph.compile(waves(), device=device, config={"shape_cache": 0})
    for by in (0, 3):
        runs_until_compiled(model, turned(by))
    same(model, X)
    assert behind(model).startswith("on the host")
    assert runs_until_compiled(model, X) > 10
