"""Keys of specialisations: shapes, and values of inputs that decide sizes."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.errors import InputError, ShapeError, UnknownValueError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.known_values import VALUE_ELEMENTS
from tests.support.graphs import FLOAT, INT
from tests.support.kept import resident_bytes
from tests.support.models import small_model
from tests.support.open_models import convolutions, open_model, reshaping
from tests.support.oracle import expected

CASES: dict[str, tuple[Callable[[], onnx.ModelProto], list[dict[str, Any]]]] = {
    "reshape": (reshaping, [{"shape": np.array(s)} for s in ((3, -1), (2, 2, 3), (-1,), (3, -1))]),
    "resize by scales": (
        lambda: open_model(
            [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")],
            {"x": (FLOAT, ("n", 6)), "scales": (FLOAT, (2,))},
        ),
        [{"scales": np.array(s, np.float32)} for s in ((1, 2), (2, 1.5))],
    ),
    "slice by starts and ends": (
        lambda: open_model(
            [helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["y"])],
            {"x": (FLOAT, ("n", 6)), "starts": (INT, (1,)), "ends": (INT, (1,))},
            constants={"axes": np.array([1])},
        ),
        [{"starts": np.array([a]), "ends": np.array([b])} for a, b in ((0, 3), (-2, 9), (4, 1))],
    ),
    "expand by a computed shape": (
        lambda: open_model(
            [
                helper.make_node("Mul", ["n", "two"], ["m"]),
                helper.make_node("Concat", ["m", "six"], ["s"], axis=0),
                helper.make_node("Expand", ["x", "s"], ["y"]),
            ],
            {"x": (FLOAT, (1, 6)), "n": (INT, (1,))},
            constants={"two": np.array([2]), "six": np.array([6])},
        ),
        [{"x": np.ones((1, 6), np.float32), "n": np.array([n])} for n in (1, 3)],
    ),
    "a value that decides sizes and is data too": (
        lambda: open_model(
            [
                helper.make_node("Tile", ["x", "n"], ["t"]),
                helper.make_node("Cast", ["n"], ["f"], to=FLOAT),
                helper.make_node("ReduceSum", ["f"], ["sum"], keepdims=0),
                helper.make_node("Mul", ["t", "sum"], ["y"]),
            ],
            {"x": (FLOAT, (2, 6)), "n": (INT, (2,))},
        ),
        [{"n": np.array(n)} for n in ((1, 2), (3, 1))],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_inputs_that_decide_sizes_are_read_on_the_host(name: str) -> None:
    build, runs = CASES[name]
    source = build()
    model = clgraph.compile(source, device="host")
    for number, feeds in enumerate(runs):
        x = np.random.default_rng(number).standard_normal((2, 6)).astype(np.float32)
        feeds = {"x": x} | feeds
        wanted = expected(source, feeds)["y"]
        np.testing.assert_allclose(model.run(feeds)["y"], wanted, rtol=1e-6, atol=1e-6)


def test_equal_values_share_a_specialisation_whatever_the_data() -> None:
    model = clgraph.compile(reshaping(), device="host")
    programs = []
    for value in (3, 2, 3):
        model.run({"x": np.full((2, 6), value, np.float32), "shape": np.array([value, -1])})
        programs.append(model.program)
    assert programs[0] is programs[2]
    assert programs[0] is not programs[1]


def test_values_can_be_prepared_and_are_asked_for() -> None:
    model = clgraph.compile(reshaping(), device="host", shapes={"x": (2, 6), "shape": (2,)})
    assert not model.is_compiled
    with pytest.raises(UnknownValueError, match=r"value of input 'shape'.*values="):
        model.prepare({"x": (2, 6), "shape": (2,)})
    program = model.prepare({"x": (2, 6)}, values={"shape": [4, 3]})
    assert program.outputs[0][1].layout.shape == (4, 3)
    with pytest.raises(InputError, match="no input is called 'size'"):
        model.prepare({"x": (2, 6)}, values={"size": [4, 3]})
    with pytest.raises(ShapeError):
        model.run({"x": np.zeros((2, 6), np.float32), "shape": np.array([5, -1])})
    assert model.run({"x": np.zeros((2, 6), np.float32), "shape": np.array([4, 3])})["y"].shape == (4, 3)
    assert model.program is program


def test_a_large_tensor_does_not_decide_sizes() -> None:
    """Every value of it would be compiled."""
    source = open_model(
        [
            helper.make_node("ReduceMax", ["x"], ["top"], keepdims=1),
            helper.make_node("Cast", ["top"], ["n"], to=INT),
            helper.make_node("Reshape", ["n", "one"], ["shape"]),
            helper.make_node("Expand", ["one_f", "shape"], ["y"]),
        ],
        {"x": (FLOAT, (VALUE_ELEMENTS + 1,))},
        constants={"one": np.array([1]), "one_f": np.array([1], np.float32)},
    )
    with pytest.raises(UnsupportedError, match="must be known") as caught:
        load_onnx(source).build()
    assert isinstance(caught.value, UnknownValueError)
    assert caught.value.inputs == ()


def test_values_are_part_of_what_is_saved(tmp_path: Path) -> None:
    model = clgraph.compile(reshaping(), device="host")
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for shape in ([3, 4], [12]):
        model.run({"x": x, "shape": np.array(shape)})
    model.save(tmp_path / "m.clg")
    loaded = clgraph.load(tmp_path / "m.clg", device="host")
    for shape in ([12], [3, 4]):
        assert loaded.run({"x": x, "shape": np.array(shape)})["y"].shape == tuple(shape)
    assert all("as saved" in note for note in loaded.notes)
    assert loaded.run({"x": x, "shape": np.array([4, 3])})["y"].shape == (4, 3)
    assert "as saved" in loaded.notes[-1]  # bound to the family of [3, 4]
    assert loaded.run({"x": x, "shape": np.array([2, 3, 2])})["y"].shape == (2, 3, 2)
    assert "no program" in loaded.notes[-1]


def test_the_specialisations_say_what_they_hold_for_and_how_they_came_about(tmp_path: Path) -> None:
    model = clgraph.compile(reshaping(), device="host")
    x = np.zeros((2, 6), np.float32)
    for shape in ([3, 4], [12, 1]):
        model.run({"x": x, "shape": np.array(shape)})
    first, second = model.specialisations
    family = "x [n, 6], shape [2], shape = [shape[0], shape[1]] of [320, 6], [2]"
    key = re.escape("x [2, 6], shape [2], shape = [3, 4]")
    assert re.fullmatch(rf"{key}: bound in [\d.]+ ms to the family {re.escape(family)}; \d+ KiB", first)
    assert "shape = [12,  1]" in second
    assert model.passes[0].name == clgraph.compile(small_model(), device="host").passes[0].name
    assert model.explain().notes["specialisations"] == f"{first}\n{second}"
    model.save(tmp_path / "m.clg")
    loaded = clgraph.load(tmp_path / "m.clg", device="host")
    loaded.run({"x": x, "shape": np.array([2, 6])})
    assert "as saved" in loaded.specialisations[0]
    assert "compiled anew" in loaded.specialisations[1]


def test_a_program_that_is_compiled_whole_says_so_in_one_line() -> None:
    """The weights fit a batch of 3 alone; schema after schema is refused."""
    source = open_model(
        [helper.make_node("Reshape", ["x", "to"], ["r"]), helper.make_node("Add", ["r", "b"], ["y"])],
        {"x": (FLOAT, ("n", 4))},
        constants={"to": np.array([3, 4]), "b": np.ones((3, 4), np.float32)},
    )
    model = clgraph.compile(source, device="host")
    model.prepare({"x": (3, 4)})
    (line,) = model.specialisations
    assert re.search(r"\d+ passes in \d+ ms; compiled whole: x \[n, 4\]: no sizes stand for the others", line)
    assert len(line) < 400


def test_as_many_programs_are_kept_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    model = clgraph.compile(small_model(size="n"), device="host", config={"shape_cache": 1})
    for size in range(4, 104):
        model.prepare({"x": (1, 3, size, size)})
    kept = model.compiled.values()
    assert 2**20 * 3 / 4 <= sum(s.nbytes for s in kept) <= 2**20
    assert model.prepare({"x": (1, 3, 103, 103)}) is list(kept)[-1].program
    last = clgraph.compile(small_model(size="n"), device="host", config={"shape_cache": 0})
    for size in (4, 5):
        last.prepare({"x": (1, 3, size, size)})
    assert len(last.compiled) == 1


def test_clones_count_what_they_took_over() -> None:
    model = clgraph.compile(small_model(size="n"), device="host", config={"shape_cache": 1})
    for size in range(4, 104):
        model.prepare({"x": (1, 3, size, size)})
    twin = model.clone()
    for size in range(104, 124):
        twin.prepare({"x": (1, 3, size, size)})
        assert sum(s.nbytes for s in twin.compiled.values()) <= 2**20


@pytest.mark.slow
@pytest.mark.opencl
def test_two_thousand_shapes_leave_memory_bounded(device: str) -> None:
    """Room for 16 MiB; allocators and arenas take some more, which the second thousand must not."""
    model = clgraph.compile(convolutions(), device, config={"shape_cache": 16})
    seen = []
    for number, (height, width) in enumerate((h, w) for h in range(4, 44) for w in range(4, 54)):
        model.run({"x": np.zeros((1 + number % 3, 3, height, width), np.float32)})
        if number % 250 == 249:
            gc.collect()
            seen.append(resident_bytes())
    assert number == 1999
    assert sum(s.nbytes for s in model.compiled.values()) <= 16 << 20
    assert max(seen[4:]) - seen[3] <= 16 << 20, seen
