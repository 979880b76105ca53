"""Inputs that no kernel reads, and results that are an input or a constant as it is: what is copied, and from where."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import clgraph
from tests.support.graphs import FLOAT
from tests.support.open_models import open_model

pytestmark = pytest.mark.opencl

SHAPES = {"small": (3, 8), "large": (64, 1024)}
"""Results of less and of more than 96 KB are in memory of the heap, and in memory that is used again."""


def model(shape, *, read=False):
    """``one`` a constant, ``same = x``, ``flat = x`` in one row; with *read* ``y = -x``, too. Nothing is made of u."""
    nodes = [
        helper.make_node("EyeLike", ["u"], ["one"]),
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Reshape", ["x", "all"], ["flat"]),
        *([helper.make_node("Neg", ["x"], ["y"])] if read else []),
    ]
    made = open_model(nodes, {"x": (FLOAT, shape), "u": (FLOAT, shape)})
    made.graph.initializer.append(numpy_helper.from_array(np.array([-1]), "all"))
    del made.graph.output[:]
    made.graph.output.extend(helper.make_tensor_value_info(o, FLOAT, None) for n in nodes for o in n.output)
    return made


def right(results, x, names=("same", "flat", "one")):
    expected = {"same": x, "flat": x.ravel(), "one": np.eye(*x.shape, dtype=np.float32), "y": -x}
    for name in names:
        np.testing.assert_array_equal(results[name], expected[name])
    return results


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_is_an_input_as_it_is_comes_from_where_the_caller_has_it(device, shape, rng):
    x, u = rng.standard_normal((2, *shape)).astype(np.float32)
    with clgraph.compile(model(shape), device=device) as made:
        network = made.profile({"x": x, "u": u})
        assert network.copies["x"] == "passed on"
        assert network.copies["u"] == "not read"
        runs = [right(made.run({"x": x, "u": u}), x) for _ in range(3)]
        arrays = [array for run in runs for array in run.values()]
        for number, array in enumerate(arrays):
            assert not any(np.may_share_memory(array, other) for other in (x, *arrays[:number]))
        for run in runs:
            run["one"][:] = 7
        right(made.run({"x": -x, "u": u}), -x)
        assert all(feed.given is None for feed in made._specialisations.latest.network.bound.feeds)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_arrays_of_the_caller_are_filled_with_what_it_was_before_the_run(device, shape, rng):
    x, u = rng.standard_normal((2, *shape)).astype(np.float32)
    with clgraph.compile(model(shape, read=True), device=device) as made:
        feeds = {"x": x.copy(), "u": u}
        right(made.run(feeds), x, ("same", "flat", "one", "y"))
        right(made.run(feeds, outputs={"y": feeds["x"], "same": np.empty_like(x)}), x, ("y", "same"))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_results_may_be_left_where_the_input_is(device, shape, rng):
    x, u = rng.standard_normal((2, *shape)).astype(np.float32)
    with clgraph.compile(model(shape), device=device) as made:
        feeds = {"x": x.copy(), "u": u}
        right(made.run(feeds, outputs={"one": feeds["x"], "same": np.empty_like(x)}), x, ("one", "same"))


def test_memory_of_the_device_is_passed_on_as_well(device, rng):
    x, u = rng.standard_normal((2, 3, 8)).astype(np.float32)
    with clgraph.compile(model((3, 8)), device=device) as made:
        held = made.run({"x": x, "u": u}, tensors=True)["same"]
        right(made.run({"x": held, "u": u}), x)
