"""Loops and scans in blocks of trips against ONNX Runtime: any number of trips, all that a run tells beforehand."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import clgraph
from clgraph.errors import ShapeError
from clgraph.graph.interpret import compute
from clgraph.ops.loop import stacked
from clgraph.ops.loop_blocks import FEWEST_TRIPS, _windows
from clgraph.ops.slice import Slice
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


@pytest.mark.parametrize(
    ("axis", "starts", "length", "together"),
    [(-1, [3, 0, 1], 2, True), (1, [2], 4, True), (0, [0, -1], 1, False), (0, [0, 2], 2, False)],
    ids=["from the back", "one trip", "in front of the first", "behind the last"],
)
def test_slices_of_all_trips_are_cut_together(axis, starts, length, together, rng):
    x, primitive = rng.random((3, 6, 5)), Slice(reads=("starts", "ends", "axes"))
    places = [[np.array([at + more]) for at in starts] for more in (0, length)] + [[np.array([axis])] * len(starts)]
    found = _windows(primitive, x, places)
    assert (found is not None) == together
    if found is not None:
        trips = zip(*places, strict=True)
        np.testing.assert_array_equal(found, np.stack([compute(primitive, [x, *trip])[0] for trip in trips]))


SHORT = [("i", INT, []), ("go", BOOL, []), ("a", FLOAT, None)]


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (
            [node("Concat", ["a", "x"], ["next"], axis=0), node("Identity", ["go"], ["on"])],
            "a value that it carries changes its shape or its type",
        ),
        (
            [
                node("Unsqueeze", ["i", "zeros"], ["to"]),
                node("Slice", ["x", "zeros", "to"], ["first"]),
                node("ReduceSum", ["first"], ["sum"], keepdims=0),
                node("Add", ["a", "sum"], ["next"]),
                node("Identity", ["go"], ["on"]),
            ],
            "what its trips cut does not stack: ValueError: all input arrays must have the same shape",
        ),
        (
            [
                node("Add", ["a", "x"], ["next"]),
                node("ReduceMax", ["next"], ["most"], keepdims=0),
                node("Less", ["most", "limit"], ["on"]),
            ],
            "its condition depends on data",
        ),
        (
            [
                node("NonZero", ["a"], ["places"]),
                node("Size", ["places"], ["size"]),
                node("Cast", ["size"], ["number"], to=FLOAT),
                node("Add", ["a", "number"], ["next"]),
                node("Identity", ["go"], ["on"]),
            ],
            "'NonZero_0' of its body (non_zero) depends on data",
        ),
    ],
    ids=["a value grows", "slices differ in size", "a condition on data", "shapes depend on data"],
)
def test_what_a_run_does_not_tell_beforehand_runs_trip_by_trip(step, reason, device, rng):
    given = {"zeros": np.array([0]), "limit": np.float32(9)}
    body = graph(step, SHORT, [("on", BOOL, []), ("next", FLOAT, None)], **given)
    nodes = [node("Loop", ["n", "", "x"], ["y"], "loop", body=body)]
    source = model(graph(nodes, [("n", INT, [1]), ("x", FLOAT, ["rows"])], [("y", FLOAT, None)]))
    made = clgraph.compile(source, device=device)
    agrees(made, source, {"n": np.array([20]), "x": rng.random(12).astype(np.float32)})
    assert not blocks(made)
    assert f"loop: trip by trip, because {reason}" in made.explain().notes["stages"]


def scanned(opset=17, **options):
    """Two states that swap places over slices of two inputs, and results of which one is what was read."""
    matrix = numpy_helper.from_array(np.float32([[0.5, 0.2, 0], [0, 0.3, 0.1], [0.4, 0, -0.2]]))
    step = [
        node("Constant", [], ["w"], value=matrix),
        node("MatMul", ["a", "w"], ["turned"]),
        node("Sum", ["turned", "u", "v"], ["b_"]),
        node("Mul", ["b", "u"], ["product"]),
    ]
    step += [node("Identity", ["v"], ["v_"]), node("Identity", ["b"], ["a_"])]
    row = {name: (name, FLOAT, [3]) for name in ("a", "b", "u", "v", "a_", "b_", "product", "v_")}
    body = graph(step, list(row.values())[:4], list(row.values())[4:])
    batch, count = (["batch"], ["n"]) if opset == 8 else ([], [])
    scan = node(
        "Scan", [*count, "a", "b", "u", "v"], ["c", "d", "p", "q"], "loop", body=body, num_scan_inputs=2, **options
    )
    open_ = [(name, FLOAT, [*batch, *((3,) if name in "ab" else (None, None))]) for name in "abuv"]
    source = model(graph([scan], [*((name, INT, batch) for name in count), *open_], [(n, FLOAT, None) for n in "cdpq"]))
    source.opset_import[0].version, source.ir_version = opset, 3 if opset == 8 else 8
    return source


@pytest.mark.opencl
def test_a_scan_runs_in_blocks_along_any_axes_in_both_directions(device, rng):
    options = {"scan_input_axes": [1, -2], "scan_output_axes": [-1, 0]}
    options |= {"scan_input_directions": [1, 0], "scan_output_directions": [1, 0]}
    source = scanned(**options)
    made = clgraph.compile(source, device=device)
    for trips in (3, 21):
        shapes = {"a": 3, "b": 3, "u": (3, trips), "v": (trips, 3)}
        agrees(made, source, {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()})
        assert blocks(made) == ([] if trips < FEWEST_TRIPS else [16, 4, 1])
    with pytest.raises(ShapeError, match=r"different lengths: \[20, 21\]"):
        made.run({"a": np.ones(3, "f"), "b": np.ones(3, "f"), "u": np.ones((3, 20), "f"), "v": np.ones((21, 3), "f")})


@pytest.mark.opencl
def test_a_scan_of_operator_set_8_runs_in_blocks_entry_by_entry(device, rng):
    source = scanned(8, directions=[0, 1])
    made = clgraph.compile(source, device=device)
    shapes = {"a": (2, 3), "b": (2, 3), "u": (2, 20, 3), "v": (2, 20, 3)}
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    agrees(made, source, {"n": np.array([20, 9]), **feeds})
    assert blocks(made) == [16, 4, 1]
    agrees(made, source, {"n": np.array([20, 7]), **feeds})
    assert "loop: trip by trip, because 7 trips are fewer than 8" in made.explain().notes["stages"]
    agrees(made, source, {"n": np.array([8, 9]), **feeds})
    assert "trip by trip" not in made.explain().notes["stages"]


@pytest.mark.parametrize("shape", [(), (3,), (0, 2)])
def test_what_trips_have_scanned_is_stacked_as_numpy_stacks_it(shape):
    numbers, whole = np.ones(shape, np.float32), np.full(shape, 2)
    for arrays in (
        [numbers, numbers + 1],
        [whole],
        [whole, numbers],
        [np.full(shape, "a", object), whole.astype(object)],
    ):
        mine, wanted = stacked(arrays), np.stack(arrays)
        assert (mine.dtype, mine.shape, mine.tolist()) == (wanted.dtype, wanted.shape, wanted.tolist())
