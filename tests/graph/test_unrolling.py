"""Loops and scans whose trips constants tell, written out: text before and after, and numbers of both."""

import numpy as np
import pytest
from onnx import helper

import clgraph
import clgraph.onnxruntime as ort
from clgraph.errors import UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.interpret import interpret
from clgraph.graph.unrolling import UNROLLED_LAYERS, unroll
from tests.support.graphs import BOOL, FLOAT, INT, agrees, graph, model
from tests.support.oracle import expected

node = helper.make_node
STATES = [("i", INT, []), ("go", BOOL, []), ("k", INT, []), ("v", FLOAT, None)]
ON = [("on", BOOL, [])]


def counting(bound="limit", *, trips="", first="zero", within=(), outside=(), rows="n", **constants):
    """A loop over rows of x while a counter from *first* on is less than *bound*: ``v = -v * w + x[counter]``."""
    body = graph(
        [
            node("Neg", ["w"], ["scale"]),
            node("Gather", ["x", "k"], ["row"]),
            node("Mul", ["v", "scale"], ["scaled"]),
            node("Add", ["scaled", "row"], ["sum"]),
            node("Add", ["k", "one"], ["next"]),
            *within,
            node("Less", ["next", bound], ["on"]),
        ],
        STATES,
        [*ON, ("next", INT, []), ("sum", FLOAT, None), ("scaled", FLOAT, None)],
        one=np.int64(1),
    )
    nodes = [*outside, node("Loop", [trips, "yes", first, "start"], ["last", "y", "rows"], "loop", body=body)]
    inputs = [("x", FLOAT, [rows, 3]), ("start", FLOAT, [3]), ("w", FLOAT, [3])]
    given = {"zero": np.int64(0), "limit": np.int64(2), "yes": np.array(True), **constants}
    return model(graph(nodes, inputs, [("last", INT, None), ("y", FLOAT, None), ("rows", FLOAT, None)], **given))


def arrays(rng, rows=4):
    shapes = {"x": (rows, 3), "start": (3,), "w": (3,)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def run(source, topology, rng, rows=4):
    feeds = arrays(rng, rows)
    for whole, written in zip(
        interpret(load_onnx(source), feeds).items(), interpret(topology, feeds).items(), strict=True
    ):
        assert whole[0] == written[0]
        np.testing.assert_array_equal(whole[1], written[1])


def kinds(topology):
    return [layer.primitive.kind for layer in topology.layers]


def test_counters_are_values_and_what_every_trip_repeats_stands_once(rng):
    source = counting()
    written = unroll(load_onnx(source))
    layers = str(written).split("\n  const loop/trip_1/i i64:scalar:\n")[1]
    assert (
        layers
        == """\
  loop/scale = activation(function=neg)(w)
  loop/trip_0/row = gather(x, zero)
  loop/trip_0/scaled = eltwise(function=mul)(start, loop/scale)
  loop/trip_0/sum = eltwise(function=add)(loop/trip_0/scaled, loop/trip_0/row)
  loop/trip_0/next = eltwise(function=add)(zero, loop/one)
  loop/trip_0/row_0 = unsqueeze(axes=0)(loop/trip_0/scaled)
  loop/trip_1/row = gather(x, loop/trip_0/next)
  loop/trip_1/scaled = eltwise(function=mul)(loop/trip_0/sum, loop/scale)
  y = eltwise(function=add)(loop/trip_1/scaled, loop/trip_1/row)
  last = eltwise(function=add)(loop/trip_0/next, loop/one)
  loop/trip_1/row_0 = unsqueeze(axes=0)(loop/trip_1/scaled)
  rows = concat(axis=0)(loop/trip_0/row_0, loop/trip_1/row_0)
  output last
  output y
  output rows"""
    )
    run(source, written, rng)


@pytest.mark.parametrize(
    ("case", "trips"),
    [
        ({}, 2),
        ({"trips": "most", "most": np.int64(1)}, 1),
        ({"trips": "most", "most": np.array([3])}, 2),
        ({"first": "two", "two": np.int64(-2)}, 4),
        ({"first": "late", "late": np.int64(9)}, 1),
    ],
)
def test_trips_are_counted_as_they_run(case, trips, rng):
    source = counting(**case)
    written = unroll(load_onnx(source))
    assert kinds(written).count("gather") == trips
    run(source, written, rng)


@pytest.mark.parametrize(
    "case",
    [
        {"yes": np.array(False)},
        {"trips": "none", "none": np.int64(0)},
        {"limit": np.int64(UNROLLED_LAYERS)},
    ],
    ids=["a false condition", "no trip", "too many trips"],
)
def test_other_loops_stay(case):
    assert kinds(unroll(load_onnx(counting(**case)))) == ["loop"]


@pytest.mark.parametrize("operator", ["ReduceSum", "RandomUniformLike"])
def test_a_condition_that_depends_on_data_or_chance_stays(operator):
    within = [
        node(operator, ["sum"], ["made"]),
        node("Size", ["made"], ["size"]),
        node("Cast", ["made"], ["b"], to=INT),
    ]
    assert kinds(unroll(load_onnx(counting("b", within=within)))) == ["loop"]


def test_what_an_input_declares_counts_trips(rng):
    outside = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "zero"], ["height"])]
    source = counting("height", outside=outside, rows=5)
    written = unroll(load_onnx(source))
    assert kinds(written).count("gather") == 6
    run(source, written, rng, rows=5)
    assert "loop" in kinds(unroll(load_onnx(counting("height", outside=outside))))


@pytest.mark.parametrize("rows", [5, "n"])
def test_a_scan_is_written_out_where_its_slices_are_counted(rows, rng):
    body = graph(
        [node("Add", ["s", "row"], ["t"]), node("Mul", ["t", "w"], ["out"])],
        [("s", FLOAT, [2]), ("row", FLOAT, [2])],
        [("t", FLOAT, [2]), ("out", FLOAT, [2])],
    )
    options = {"scan_input_directions": [1], "scan_output_axes": [1], "scan_output_directions": [1]}
    scan = node("Scan", ["s", "turned"], ["last", "all"], "scan", body=body, num_scan_inputs=1, **options)
    nodes = [node("Transpose", ["x"], ["turned"]), scan]
    inputs = [("x", FLOAT, [2, rows]), ("s", FLOAT, [2]), ("w", FLOAT, [2])]
    source = model(graph(nodes, inputs, [("last", FLOAT, None), ("all", FLOAT, None)]))
    written = unroll(load_onnx(source))
    assert kinds(written).count("gather") == (5 if rows == 5 else 0)
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in (("x", (2, 5)), ("s", 2), ("w", 2))}
    made = interpret(written, feeds)
    for name, wanted in expected(source, feeds).items():
        np.testing.assert_allclose(made[name], wanted, rtol=1e-6, atol=1e-6)


def test_a_result_that_is_what_was_fed_keeps_its_name(rng):
    body = graph([node("Identity", ["go"], ["on"])], STATES, [*ON, ("k", INT, []), ("v", FLOAT, None), ("i", INT, [])])
    nodes = [node("Loop", ["two", "", "two", "x"], ["k_", "v_", "rows"], "loop", body=body), node("Neg", ["v_"], ["y"])]
    outputs = [("y", FLOAT, None), ("k_", INT, []), ("v_", FLOAT, None), ("rows", INT, None)]
    source = model(graph(nodes, [("x", FLOAT, [3])], outputs, two=np.int64(2)))
    written = unroll(load_onnx(source))
    assert "loop" not in kinds(written)
    x = rng.standard_normal(3).astype(np.float32)
    made = interpret(written, {"x": x})
    np.testing.assert_array_equal(made["y"], -x)
    np.testing.assert_array_equal(made["v_"], x)
    assert (made["k_"], made["rows"].tolist()) == (2, [0, 1])


@pytest.mark.opencl
@pytest.mark.parametrize("name", ["zero", "limit"])
def test_a_value_that_may_be_fed_is_not_taken_for_known(name, device, rng):
    source = counting()
    source.graph.input.append(helper.make_tensor_value_info(name, INT, []))
    feeds = {**arrays(rng), name: np.array(1 if name == "zero" else 3)}
    made = clgraph.compile(source, device=device)
    assert made.topology.unrolled
    with pytest.raises(UnsupportedError, match=f"{name!r} was read when it was compiled"):
        made.run(feeds)
    agrees(clgraph.compile(source, device=device, shapes={name: ()}), source, feeds)
    whole = ort.InferenceSession(source.SerializeToString()).run(None, feeds)
    for found, wanted in zip(whole, expected(source, feeds).values(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.opencl
def test_a_written_out_loop_is_a_part_of_the_program(device, rng):
    source = counting()
    made = clgraph.compile(source, device=device)
    assert made.topology.unrolled
    agrees(made, source, arrays(rng))
