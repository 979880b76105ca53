"""Shapes of inputs: declared, given when a model is compiled, and changed by ``reshape``."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.errors import InputError, ShapeError
from clgraph.graph.signature import Signature
from clgraph.model import ranges
from clgraph.model.ranges import ends
from tests.support.graphs import FLOAT
from tests.support.models import image, small_model
from tests.support.open_models import convolutions, open_model


def test_given_shapes_are_fixed_and_reshape_gives_others() -> None:
    model = clgraph.compile(convolutions(), device="host", shapes={"x": ("batch", 3, 8, 9)})
    assert model.inputs[0].shape == ("batch", 3, 8, 9)
    assert not model.is_compiled
    assert model.run({"x": np.ones((2, 3, 8, 9), np.float32)})["y"].shape == (2, 40)
    with pytest.raises(InputError, match=r"input 'x' has shape \[batch, 3, 8, 9\]"):
        model.run({"x": np.ones((2, 3, 9, 9), np.float32)})
    other = model.reshape({"x": (1, 3, 9, 9)})
    assert other.is_compiled
    assert other.outputs[0].shape == (1, 40)
    assert model.inputs[0].shape == ("batch", 3, 8, 9)
    assert other.reshape({"x": (None, 3, None, "w")}).inputs[0].shape == (None, 3, None, "w")
    with pytest.raises(ShapeError, match="node"):
        other.reshape({"x": (1, 4, 9, 9)})


def test_reshape_replaces_sizes_that_a_model_declares() -> None:
    model = clgraph.compile(small_model(size=10), device="host")
    x = image((1, 3, 6, 5))
    twin = model.reshape({"x": x.shape})
    assert twin.outputs[0].shape == (1, 8, 3, 2)
    expected = clgraph.compile(small_model(size="n"), device="host").run({"x": x})["y"]
    np.testing.assert_array_equal(twin.run({"x": x})["y"], expected)
    opened = model.reshape({"x": (1, 3, None, "w")})
    assert opened.outputs[0].shape is None
    np.testing.assert_array_equal(opened.run({"x": x})["y"], expected)


@pytest.mark.parametrize(
    ("shapes", "what"),
    [
        ({"y": (1,)}, "no input is called 'y'"),
        ({"x": (1, 3, 8)}, "number of axes"),
        ({"x": (1, 3, -1, 8)}, "negative"),
        ({"x": (1, 3, 1.5, 8)}, "sizes, names and None"),
        ({"x": 3}, "sizes, names and None"),
        ({"x": "abcd"}, "sizes, names and None"),
        ({"n": 3}, "input 'n': .* not 3; a dimension's size is given in the shape"),
        ([1, 3, 8, 8], "by the inputs' names.*not as list"),
    ],
)
def test_shapes_that_mean_nothing_are_refused(shapes: Any, what: str) -> None:
    with pytest.raises(InputError, match=what):
        clgraph.compile(convolutions(), device="host", shapes=shapes)
    with pytest.raises(InputError, match=what):
        clgraph.compile(convolutions(), device="host").reshape(shapes)


def test_shapes_to_prepare_go_by_name() -> None:
    with pytest.raises(InputError, match=r"by the inputs' names.*not as tuple"):
        clgraph.compile(convolutions(), device="host").prepare((1, 3, 8, 8))  # type: ignore[arg-type]


def test_compile_does_not_contradict_declared_sizes() -> None:
    with pytest.raises(InputError, match=r"does not fit.*reshape"):
        clgraph.compile(convolutions(), device="host", shapes={"x": (1, 4, 8, 8)})
    model = clgraph.compile(convolutions(), device="host", shapes={"x": (None, None, 8, 8)})
    assert model.inputs[0].shape == (None, 3, 8, 8)


def test_inputs_of_unknown_rank_take_arrays_of_any() -> None:
    """Neither the input nor the output declares a shape; what depends on the rank is bound with it."""
    source = open_model(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Size", ["s"], ["rank"]),
            helper.make_node("Cast", ["rank"], ["f"], to=FLOAT),
            helper.make_node("Mul", ["x", "f"], ["m"]),
            helper.make_node("ReduceSum", ["m"], ["y"], keepdims=1),
        ],
        {"x": (FLOAT, None)},
    )
    model = clgraph.compile(source, device="host")
    assert (model.inputs[0].shape, model.outputs[0].shape) == (None, None)
    for shape in ((), (3,), (2, 3), (1, 2, 1, 3), (0, 2)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        (found,) = model.run({"x": x}).values()
        assert found.shape == (1,) * len(shape)
        np.testing.assert_allclose(found, len(shape) * x.sum(keepdims=True), rtol=1e-5, atol=1e-6)
    assert clgraph.compile(source, device="host", shapes={"x": (2, "n")}).inputs[0].shape == (2, "n")


def test_a_repeated_name_of_a_size_is_no_constraint_and_outputs_are_as_declared() -> None:
    source = open_model([helper.make_node("Transpose", ["x"], ["y"])], {"x": (FLOAT, ("n", "n"))})
    source.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, ("columns", "?")))
    model = clgraph.compile(source, device="host")
    assert model.inputs[0].shape == ("n", "n")
    assert model.run({"x": np.zeros((2, 3), np.float32)})["y"].shape == (3, 2)
    assert model.outputs[0].shape == ("columns", "?")
    assert clgraph.compile(source, device="host", shapes={"x": (2, 3)}).outputs[0].shape == (3, 2)


@pytest.mark.opencl
def test_ranges_are_prepared_for_every_shape_in_them(device: str) -> None:
    model = clgraph.compile(convolutions(), device)
    largest = model.prepare({"x": ((1, 3), 3, (8, 40), (8, 40))})
    assert largest.inputs[0].layout.shape == (3, 3, 40, 40)
    assert {key.shapes[0][0] for key in model.compiled} == {1, 2, 3}
    assert len(model.compiled) == 12
    families = {s.program.notes["family"].partition("family ")[2].partition(";")[0] for s in model.compiled.values()}
    assert len(families) == 2
    for batch, height, width in ((1, 9, 31), (2, 40, 8), (3, 17, 17)):
        model.run({"x": np.ones((batch, 3, height, width), np.float32)})
        assert model.specialisations[-1].partition("family ")[2].partition(";")[0] in families


@pytest.mark.opencl
def test_single_pictures_between_small_and_large_ones_are_prepared(device: str) -> None:
    model = clgraph.compile(convolutions(), device)
    model.prepare({"x": (1, 3, (120, 560), (120, 560))})  # 120 x 560 is large already
    families = {s.program.notes["family"].partition("family ")[2].partition(";")[0] for s in model.compiled.values()}
    model.run({"x": np.ones((1, 3, 200, 200), np.float32)})
    assert model.specialisations[-1].partition("family ")[2].partition(";")[0] in families


def test_ranges_of_sizes_that_belong_together_go_together() -> None:
    source = open_model(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        {"a": (FLOAT, ("n", "s")), "b": (FLOAT, ("n", "s"))},
    )
    model = clgraph.compile(source, device="host")
    model.prepare({"a": ((1, 4), (5, 9)), "b": ((1, 4), (5, 9))})
    assert [key.shapes[0] for key in model.compiled] == [(1, 5), (1, 9), (4, 5), (4, 9)]
    assert all(key.shapes[0] == key.shapes[1] for key in model.compiled)


@pytest.mark.parametrize(
    ("shape", "what"),
    [
        (((4, 1), 3, 8, 8), "smallest and largest size, 0 or more, not (4, 1)"),
        (((-1, 3), 3, 8, 8), "0 or more"),
        (((1, 2, 3), 3, 8, 8), "smallest and largest size, not (1, 2, 3)"),
        (((1, 2.5), 3, 8, 8), "smallest and largest size, not (1, 2.5)"),
        ((1, (1, 3), 8, 8), "does not fit it"),
    ],
)
def test_ranges_that_mean_nothing_are_refused(shape: Any, what: str) -> None:
    model = clgraph.compile(convolutions(), device="host")
    with pytest.raises(InputError, match=re.escape(what)):
        model.prepare({"x": shape})
    assert not model.compiled


def test_ranges_end_at_sizes_that_have_programs_of_their_own() -> None:
    signatures = {"x": Signature("x", None, ("n", None))}
    found = ends({"x": ((0, 4), (1, 2))}, signatures)
    assert [shapes["x"] for shapes in found] == [(n, m) for n in (0, 1, 4) for m in (1, 2)]
    assert ends({"x": ((3, 3), 7)}, signatures) == [{"x": (3, 7)}]
    pictures = {"x": Signature("x", None, ("n", 3, "h", "w"))}
    found = ends({"x": ((1, 4), 3, (8, 9), (8, 9))}, pictures)
    assert [shapes["x"] for shapes in found] == [(n, 3, h, w) for n in (1, 2, 4) for h in (8, 9) for w in (8, 9)]


def test_nothing_is_tried_between_the_ends_where_no_picture_has_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every binding would take 0.4 ms longer."""
    tried: list[object] = []
    of = ranges._at
    monkeypatch.setattr(ranges, "_at", lambda chosen, *about: tried.append(chosen) or of(chosen, *about))
    assert ends({"x": (1, 3, 200, 200)}, {"x": Signature("x", None, ("n", 3, "h", "w"))}) == [{"x": (1, 3, 200, 200)}]
    assert len(tried) == 1


def test_too_many_ranges_at_once_are_refused() -> None:
    names = [f"x{i}" for i in range(4)]
    source = open_model([helper.make_node("Sum", names, ["y"])], {n: (FLOAT, (f"{n}a", f"{n}b")) for n in names})
    with pytest.raises(InputError, match="8 ranges have 256 ends"):
        clgraph.compile(source, device="host").prepare(dict.fromkeys(names, ((1, 4), (1, 5))))


def test_a_size_in_a_range_that_does_not_fit_shows_when_it_is_prepared() -> None:
    source = open_model(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        {"x": (FLOAT, ("n", 3, "h", "w"))},
        constants={"w": np.ones((4, 3, 5, 5), np.float32)},
    )
    with pytest.raises(ShapeError):
        clgraph.compile(source, device="host").prepare({"x": (1, 3, (3, 64), 64)})
