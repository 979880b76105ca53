"""Loops in blocks of trips against ONNX Runtime: any number of trips, and all that a run tells beforehand."""

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.ops.loop_blocks import FEWEST_TRIPS
from tests.support.graphs import BOOL, FLOAT, INT, agrees, graph, model

node = helper.make_node
STATES = [("i", INT, []), ("go", BOOL, []), ("k", INT, []), ("a", FLOAT, None), ("b", FLOAT, None), ("w", FLOAT, None)]
OUTPUTS = [("on", BOOL, []), ("k_", INT, []), ("b", FLOAT, None), ("sum", FLOAT, None), ("w", FLOAT, None)]
STEP = [
    node("Add", ["k", "one"], ["k_"]),
    node("Less", ["k_", "bound"], ["on"]),
    node("Gather", ["x", "i"], ["row"]),
    node("Gather", ["x", "k"], ["other"], axis=1),
    node("Unsqueeze", ["k", "zeros"], ["from"]),
    node("Unsqueeze", ["k_", "zeros"], ["to"]),
    node("Slice", ["x", "from", "to"], ["cut"]),
    node("Cast", ["i"], ["number"], to=FLOAT),
    node("Transpose", ["w"], ["turned"]),
    node("MatMul", ["row", "turned"], ["product"]),
    node("Mul", ["a", "half"], ["less"]),
    node("Sum", ["product", "other", "cut", "number", "less"], ["total"]),
    node("ReduceMean", ["total"], ["sum"], axes=[0], keepdims=0),
]


def looped(step=(), *, trips="n", outputs=(), **constants):
    """Two carried values that swap places, a counter, a matrix that is carried as it is, and scanned results."""
    given = {"one": np.int64(1), "zeros": np.array([0]), "half": np.float32(0.5)}
    scanned = [("less", FLOAT, None), ("number", FLOAT, []), *outputs]
    body = graph([*STEP, *step], STATES, [*OUTPUTS, *scanned], **given)
    names = ["last", "a_", "b_", "w_", "rows", "numbers", *(f"more{i}" for i in range(len(outputs)))]
    nodes = [
        node("Identity", ["n"], ["bound"]),
        node("Loop", [trips, "yes", "zero", "start", "start", "v"], names, "loop", body=body),
    ]
    inputs = [
        ("n", INT, [1]),
        ("x", FLOAT, ["rows", "rows"]),
        ("start", FLOAT, ["rows"]),
        ("v", FLOAT, ["rows", "rows"]),
    ]
    given = {"zero": np.int64(0), "yes": np.array(True), **constants}
    return model(graph(nodes, inputs, [(name, FLOAT if name != "last" else INT, None) for name in names], **given))


def feeds(trips, size, rng):
    x, v = rng.standard_normal((2, size, size)).astype(np.float32)
    return {"n": np.array([trips]), "x": x, "v": v / size, "start": x[0].copy()}


def blocks(made):
    return [trips for trips in (16, 4, 1) if f"loop/{trips} trips" in made.explain().notes["stages"]]


@pytest.mark.opencl
def test_any_number_of_trips_runs_in_blocks(device, rng):
    source = looped()
    made = clgraph.compile(source, device=device)
    for trips in (1, FEWEST_TRIPS - 1, FEWEST_TRIPS, 37, 16, 37):
        agrees(made, source, feeds(trips, 40, rng))
        assert bool(blocks(made)) == (trips >= FEWEST_TRIPS)
    assert blocks(made) == [16, 4, 1]
    agrees(made, source, feeds(20, 24, rng))


@pytest.mark.opencl
@pytest.mark.parametrize(
    "case",
    [
        {"step": [node("Concat", ["less", "less"], ["longer"], axis=0)], "outputs": [("longer", FLOAT, None)]},
        {"trips": "", "step": [], "outputs": []},
        {"trips": "most", "most": np.int64(11)},
    ],
    ids=["more results", "a condition alone", "at most eleven"],
)
def test_other_loops_run_in_blocks(case, device, rng):
    source = looped(**case)
    made = clgraph.compile(source, device=device)
    agrees(made, source, feeds(19, 40, rng))
    assert blocks(made)


SHORT = [("i", INT, []), ("go", BOOL, []), ("a", FLOAT, None)]


@pytest.mark.opencl
@pytest.mark.parametrize(
    "step",
    [
        [node("Concat", ["a", "x"], ["next"], axis=0), node("Identity", ["go"], ["on"])],
        [
            node("Unsqueeze", ["i", "zeros"], ["to"]),
            node("Slice", ["x", "zeros", "to"], ["first"]),
            node("ReduceSum", ["first"], ["sum"], keepdims=0),
            node("Add", ["a", "sum"], ["next"]),
            node("Identity", ["go"], ["on"]),
        ],
        [
            node("Add", ["a", "x"], ["next"]),
            node("ReduceMax", ["next"], ["most"], keepdims=0),
            node("Less", ["most", "limit"], ["on"]),
        ],
        [
            node("NonZero", ["a"], ["places"]),
            node("Size", ["places"], ["size"]),
            node("Cast", ["size"], ["number"], to=FLOAT),
            node("Add", ["a", "number"], ["next"]),
            node("Identity", ["go"], ["on"]),
        ],
    ],
    ids=["a value grows", "slices differ in size", "a condition on data", "shapes depend on data"],
)
def test_what_a_run_does_not_tell_beforehand_runs_trip_by_trip(step, device, rng):
    given = {"zeros": np.array([0]), "limit": np.float32(9)}
    body = graph(step, SHORT, [("on", BOOL, []), ("next", FLOAT, None)], **given)
    nodes = [node("Loop", ["n", "", "x"], ["y"], "loop", body=body)]
    source = model(graph(nodes, [("n", INT, [1]), ("x", FLOAT, ["rows"])], [("y", FLOAT, None)]))
    made = clgraph.compile(source, device=device)
    agrees(made, source, {"n": np.array([20]), "x": rng.random(12).astype(np.float32)})
    assert not blocks(made)
