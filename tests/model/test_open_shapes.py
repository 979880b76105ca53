"""Shapes of inputs: declared, given when a model is compiled, and changed by ``reshape``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.errors import InputError, ShapeError
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
