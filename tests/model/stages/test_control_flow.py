"""If, Loop and Scan against ONNX Runtime: conditions of the run, nested bodies, values around them, changing shapes."""

import numpy as np
import pytest
from onnx import helper

import clgraph
from tests.support.graphs import BOOL, FLOAT, INT, agrees, graph, model

node = helper.make_node


def branches(inner=()):
    """A body that adds, and one that multiplies and reads a constant of the graph around."""
    then = graph([node("Add", ["r", "one"], ["t"])], [], [("t", FLOAT, None)], one=np.float32(1))
    other = graph([*inner, node("Mul", ["r", "factor"], ["e"])], [], [("e", FLOAT, None)])
    return {"then_branch": then, "else_branch": other}


def conditional(condition, inputs=(), **constants):
    nodes = [node("Relu", ["x"], ["r"]), *condition, node("If", ["c"], ["y"], "choose", **branches())]
    return model(graph(nodes, [("x", FLOAT, [2, 3]), *inputs], [("y", FLOAT, None)], factor=np.float32(3), **constants))


BY_DATA = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"])]
BY_SHAPE = [node("Size", ["x"], ["n"]), node("Greater", ["n", "zero"], ["c"])]


@pytest.mark.opencl
@pytest.mark.parametrize("sign", [1, -1])
def test_a_condition_of_the_run_chooses_the_body(device, sign, rng):
    source = conditional(BY_DATA, zero=np.float32(0))
    x = sign * np.abs(rng.standard_normal((2, 3))).astype(np.float32)
    made = clgraph.compile(source, device=device)
    agrees(made, source, {"x": x})
    assert ("choose/then" if sign > 0 else "choose/else") in made.explain().notes["stages"]


@pytest.mark.opencl
def test_a_condition_known_from_shapes_leaves_no_if(device, rng):
    source = conditional(BY_SHAPE, zero=np.int64(0))
    made = clgraph.compile(source, device=device)
    agrees(made, source, {"x": rng.standard_normal((2, 3)).astype(np.float32)})
    assert type(made) is clgraph.Model
    kinds = [n.primitive.kind for n in made.program]
    assert kinds.count("activation") == 1
    assert "if_else" not in kinds
    assert any("choose/" in n.name or "choose" in n.origin for n in made.program)


@pytest.mark.opencl
def test_a_condition_that_is_an_input_makes_one_program_a_value(device, rng):
    source = conditional([], [("c", BOOL, [1])])
    made = clgraph.compile(source, device=device)
    x = rng.standard_normal((2, 3)).astype(np.float32)
    for value in (True, False, True):
        agrees(made, source, {"x": x, "c": np.array([value])})
    assert type(made) is clgraph.Model


LOOP_INPUTS = [("i", INT, []), ("go", BOOL, []), ("v", FLOAT, None)]


@pytest.mark.opencl
@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_loop_carries_a_value_that_grows(device, trips, rng):
    body = graph(
        [
            node("Concat", ["v", "r"], ["longer"], axis=0),
            node("ReduceSum", ["longer"], ["sum"], keepdims=0),
            node("Identity", ["go"], ["on"]),
        ],
        LOOP_INPUTS,
        [("on", BOOL, []), ("longer", FLOAT, None), ("sum", FLOAT, [])],
    )
    nodes = [node("Relu", ["x"], ["r"]), node("Loop", ["n", "", "r"], ["y", "sums"], "loop", body=body)]
    inputs = [("x", FLOAT, [2, 3]), ("n", INT, [])]
    source = model(graph(nodes, inputs, [("y", FLOAT, None), ("sums", FLOAT, None)]))
    x = rng.standard_normal((2, 3)).astype(np.float32)
    agrees(clgraph.compile(source, device=device), source, {"x": x, "n": np.int64(trips)})


@pytest.mark.opencl
def test_a_loop_ends_when_its_condition_says_so(device, rng):
    body = graph(
        [
            node("Mul", ["v", "two"], ["w"]),
            node("ReduceMax", ["w"], ["most"], keepdims=0),
            node("Less", ["most", "limit"], ["on"]),
        ],
        LOOP_INPUTS,
        [("on", BOOL, []), ("w", FLOAT, None), ("most", FLOAT, [])],
        two=np.float32(2),
    )
    nodes = [node("Abs", ["x"], ["r"]), node("Loop", ["", "yes", "r"], ["y", "steps"], body=body)]
    inputs = [("x", FLOAT, [2, 3]), ("limit", FLOAT, [])]
    outputs = [("y", FLOAT, None), ("steps", FLOAT, None)]
    source = model(graph(nodes, inputs, outputs, yes=np.array(True)))
    made = clgraph.compile(source, device=device)
    for limit in (0.5, 40.0):
        agrees(made, source, {"x": rng.standard_normal((2, 3)).astype(np.float32), "limit": np.float32(limit)})


@pytest.mark.opencl
def test_an_if_in_a_loop_reads_what_is_around_both(device, rng):
    inner = {
        "then_branch": graph([node("Add", ["v", "r"], ["t"])], [], [("t", FLOAT, None)]),
        "else_branch": graph([node("Sub", ["v", "scaled"], ["e"])], [], [("e", FLOAT, None)]),
    }
    body = graph(
        [
            node("Mul", ["r", "three"], ["scaled"]),
            node("Mod", ["i", "two"], ["odd"]),
            node("Cast", ["odd"], ["c"], to=BOOL),
            node("If", ["c"], ["w"], **inner),
            node("Identity", ["go"], ["on"]),
        ],
        LOOP_INPUTS,
        [("on", BOOL, []), ("w", FLOAT, None)],
        three=np.float32(3),
        two=np.int64(2),
    )
    nodes = [node("Relu", ["x"], ["r"]), node("Loop", ["n", "", "r"], ["y"], body=body)]
    source = model(graph(nodes, [("x", FLOAT, [2, 3]), ("n", INT, [])], [("y", FLOAT, None)]))
    x = rng.standard_normal((2, 3)).astype(np.float32)
    agrees(clgraph.compile(source, device=device), source, {"x": x, "n": np.int64(3)})


@pytest.mark.opencl
def test_a_body_worth_it_is_compiled_once_and_its_slices_are_not(device, rng, monkeypatch):
    monkeypatch.setattr("clgraph.model.stages.host_piece.HOST_OPERATIONS", 1000.0)
    body = graph(
        [
            node("Unsqueeze", ["i", "axes"], ["start"]),
            node("Add", ["start", "one"], ["end"]),
            node("Slice", ["x", "start", "end"], ["row"]),
            node("MatMul", ["row", "w"], ["z"]),
            node("Add", ["z", "v"], ["next"]),
            node("Identity", ["go"], ["on"]),
        ],
        LOOP_INPUTS,
        [("on", BOOL, []), ("next", FLOAT, None)],
        axes=np.array([0]),
        one=np.array([1]),
        w=rng.standard_normal((64, 64)).astype(np.float32),
    )
    nodes = [node("Relu", ["x"], ["r"]), node("Slice", ["r", "zero", "one"], ["v0"])]
    nodes.append(node("Loop", ["n", "", "v0"], ["y"], "loop", body=body))
    inputs = [("x", FLOAT, [5, 64]), ("n", INT, [])]
    source = model(graph(nodes, inputs, [("y", FLOAT, None)], zero=np.array([0]), one=np.array([1])))
    made = clgraph.compile(source, device=device)
    agrees(made, source, {"x": rng.standard_normal((5, 64)).astype(np.float32), "n": np.int64(5)}, atol=1e-4)
    stages = made.explain().notes["stages"]
    assert "compiled" in stages.split("loop/body")[1]
    (loop,) = (p for p in made._runner.pieces if p.bodies)
    assert [len(m._specialisations.kept) for m in loop.models] == [1]


@pytest.mark.opencl
@pytest.mark.parametrize("reverse", [0, 1])
def test_a_scan_walks_slices_of_an_axis(device, reverse, rng):
    body = graph(
        [node("Add", ["s", "row"], ["t"]), node("Mul", ["t", "r0"], ["out"])],
        [("s", FLOAT, None), ("row", FLOAT, None)],
        [("t", FLOAT, None), ("out", FLOAT, None)],
    )
    options = {"scan_input_axes": [1], "scan_output_axes": [1]}
    options |= {"scan_input_directions": [reverse], "scan_output_directions": [reverse]}
    nodes = [
        node("ReduceMax", ["x"], ["r0"], keepdims=0),
        node("Scan", ["s0", "x"], ["last", "all"], body=body, num_scan_inputs=1, **options),
    ]
    inputs = [("x", FLOAT, [2, 5]), ("s0", FLOAT, [2])]
    source = model(graph(nodes, inputs, [("last", FLOAT, None), ("all", FLOAT, None)]))
    feeds = {"x": rng.standard_normal((2, 5)).astype(np.float32), "s0": rng.standard_normal(2).astype(np.float32)}
    agrees(clgraph.compile(source, device=device), source, feeds)


@pytest.mark.parametrize("reverse", [0, 1])
def test_a_scan_of_operator_set_8_walks_as_many_slices_as_each_entry_has(reverse, rng):
    body = graph(
        [node("Add", ["s", "row"], ["t"]), node("Identity", ["t"], ["out"])],
        [("s", FLOAT, [3]), ("row", FLOAT, [3])],
        [("t", FLOAT, [3]), ("out", FLOAT, [3])],
    )
    scan = node("Scan", ["n", "s0", "x"], ["last", "all"], body=body, num_scan_inputs=1, directions=[reverse])
    inputs = [("n", INT, [2]), ("s0", FLOAT, [2, 3]), ("x", FLOAT, [2, 5, 3])]
    source = model(graph([scan], inputs, [("last", FLOAT, [2, 3]), ("all", FLOAT, [2, 5, 3])]))
    source.opset_import[0].version, source.ir_version = 8, 3
    feeds = {"n": np.array([5, 3]), "s0": rng.standard_normal((2, 3)).astype(np.float32)}
    feeds["x"] = rng.standard_normal((2, 5, 3)).astype(np.float32)
    made = clgraph.compile(source, device="host")
    agrees(made, source, feeds)
    with pytest.raises(clgraph.errors.ClgraphError, match="6 slices are none or more than the 5 that there are"):
        made.run({**feeds, "n": np.array([5, 6])})


def test_the_error_of_a_body_names_the_node_around_it():
    bad = graph([node("Imaginary", ["r"], ["t"], domain="nowhere")], [], [("t", FLOAT, None)])
    good = graph([node("Identity", ["r"], ["e"])], [], [("e", FLOAT, None)])
    nodes = [node("Relu", ["x"], ["r"]), node("If", ["c"], ["y"], "choose", then_branch=bad, else_branch=good)]
    source = model(graph(nodes, [("x", FLOAT, [2]), ("c", BOOL, [])], [("y", FLOAT, None)]))
    with pytest.raises(clgraph.errors.UnsupportedError, match=r"choose.*Imaginary"):
        clgraph.compile(source, device="null")


def test_a_body_that_reads_what_nothing_makes_is_refused():
    bad = graph([node("Relu", ["ghost"], ["t"])], [], [("t", FLOAT, None)])
    nodes = [node("If", ["c"], ["y"], "choose", then_branch=bad, else_branch=bad)]
    source = model(graph(nodes, [("c", BOOL, [])], [("y", FLOAT, None)]))
    with pytest.raises(clgraph.errors.ModelError, match="ghost"):
        clgraph.compile(source, device="null")


@pytest.mark.opencl
def test_dumps_hold_the_stages_and_the_bodies(device, rng, tmp_path, monkeypatch):
    monkeypatch.setattr("clgraph.model.stages.host_piece.HOST_OPERATIONS", 1.0)
    source = conditional(BY_DATA, zero=np.float32(0))
    made = clgraph.compile(source, device=device, config={"dump_graphs": tmp_path})
    made.run({"x": np.ones((2, 3), np.float32)})
    text = (tmp_path / "stages.txt").read_text()
    assert [line for line in text.splitlines() if line.startswith("stage_")] == [
        "stage_0: topology",
        "stage_1: topology",
    ]
    assert "y = if_else(then: 1 layers, else: 1 layers)(c, r)" in text
    assert "then:\n      input r" in text
    assert "t = eltwise(function=add)(r, one)" in text
    assert list((tmp_path / "stage_0").glob("*_init.txt"))
    assert list((tmp_path / "stage_1_choose_then_stage_0").glob("*/*_init.txt"))


@pytest.mark.opencl
@pytest.mark.parametrize("condition", ["shape", "data"])
def test_a_body_may_hand_on_what_it_reads_and_constants(condition, device, rng):
    outputs = [("a", FLOAT, None), ("b", FLOAT, None)]
    then = graph([node("Identity", ["r"], ["a"])], [], outputs, b=np.float32([3, 4]))
    other = graph([node("Neg", ["r"], ["a"]), node("Identity", ["a"], ["b"])], [], outputs)
    decide, zero = (BY_SHAPE, np.int64(0)) if condition == "shape" else (BY_DATA, np.float32(0))
    branch = node("If", ["c"], ["y", "z"], then_branch=then, else_branch=other)
    nodes = [node("Relu", ["x"], ["r"]), *decide, branch]
    made = [("y", FLOAT, None), ("z", FLOAT, None)]
    source = model(graph(nodes, [("x", FLOAT, [2, 3])], made, zero=zero))
    compiled = clgraph.compile(source, device=device)
    for sign in (1, -1):
        agrees(compiled, source, {"x": sign * np.abs(rng.standard_normal((2, 3))).astype(np.float32)})


@pytest.mark.opencl
def test_a_body_that_reads_large_constants_is_compiled(device, rng, monkeypatch):
    monkeypatch.setattr("clgraph.model.stages.host_piece.HOST_CONSTANTS", 1000)
    w = (rng.standard_normal((16, 16)) / 8).astype(np.float32)
    made = [node("Identity", ["go"], ["on"]), node("MatMul", ["v", "w"], ["next"])]
    body = graph(made, LOOP_INPUTS, [("on", BOOL, []), ("next", FLOAT, None)])
    nodes = [node("Loop", ["n", "", "x"], ["y"], body=body)]
    source = model(graph(nodes, [("x", FLOAT, [1, 16]), ("n", INT, [])], [("y", FLOAT, None)], w=w))
    compiled = clgraph.compile(source, device=device)
    agrees(compiled, source, {"x": rng.standard_normal((1, 16)).astype(np.float32), "n": np.int64(3)})
    assert any("compiled: 1 nodes" in note for note in compiled.notes)


@pytest.mark.opencl
@pytest.mark.parametrize("known", [True, False])
def test_trip_and_condition_have_the_axis_that_the_body_declares(device, known):
    """Trip by trip, in blocks and written out; spox declares one element of either."""
    body = graph(
        [
            node("Reshape", ["go", "one"], ["on"]),
            node("Concat", ["i", "one"], ["j"], axis=0),
            node("Add", ["v", "i"], ["w"]),
            node("Not", ["go"], ["stop"]),
        ],
        [("i", INT, [1]), ("go", BOOL, [1]), ("v", INT, [1])],
        [("on", BOOL, [1]), ("w", INT, [1]), ("stop", BOOL, None), ("j", INT, None)],
    )
    constants = {"yes": np.array([True]), "zero": np.array([0]), "one": np.array([1])}
    loop = node("Loop", ["n", "yes", "zero"], ["sum", "stops", "more"], "loop", body=body)
    outputs = [("sum", INT, None), ("stops", BOOL, None), ("more", INT, None)]
    for trips in (3, 13):
        given, feeds = ({"n": np.array([trips])}, {}) if known else ({}, {"n": np.array([trips])})
        source = model(graph([loop], [] if known else [("n", INT, [1])], outputs, **constants, **given))
        made = clgraph.compile(source, device=device)
        agrees(made, source, feeds)
        assert made.explain().notes is not None
