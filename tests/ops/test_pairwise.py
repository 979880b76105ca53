"""Scans that compute distances of rows: all slices at once, the same bits as slice by slice, also in blocks."""

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.errors import ShapeError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.interpret import interpret
from clgraph.graph.unrolling import unroll
from clgraph.ops import pairwise
from tests.support.graphs import FLOAT, graph, model
from tests.support.oracle import expected

node = helper.make_node
SQUARES = (node("ReduceSumSquare", ["d", "axes"], ["out"], keepdims=0),)
SUMS = (node("Abs", ["d"], ["a"]), node("ReduceSum", ["a", "axes"], ["out"], keepdims=1))


def distances(points, layers=SQUARES, *, x=("n", None), difference=("x_in", "row"), axes=(1,), outer=True):
    """A scan over *points* as skl2onnx writes its ``cdist``: the difference of each from all of x, reduced."""
    constants = {"axes": np.array(axes, np.int64)}
    body = graph(
        [node("Identity", ["x_in"], ["x_out"]), node("Sub", list(difference), ["d"]), *layers],
        [("x_in", FLOAT, None), ("row", FLOAT, None)],
        [("x_out", FLOAT, None), ("out", FLOAT, None)],
        **({} if outer else constants),
    )
    nodes = [node("Scan", ["x", "points"], ["same", "y"], "scan", body=body, num_scan_inputs=1)]
    outputs = [("y", FLOAT, None), ("same", FLOAT, None)]
    return model(graph(nodes, [("x", FLOAT, x)], outputs, points=points, **(constants if outer else {})), opset=18)


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def agrees_in_every_bit(source, x):
    written = unroll(load_onnx(source))
    assert [layer.primitive.kind for layer in written.layers] == ["pairwise"]
    sliced, whole = interpret(load_onnx(source), {"x": x}), interpret(written, {"x": x})
    for name, wanted in sliced.items():
        np.testing.assert_array_equal(whole[name], wanted)
    return whole["y"]


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("layers", [SQUARES, SUMS])
@pytest.mark.parametrize("features", [1, 2, 7, 9, 130])
def test_all_slices_at_once_are_the_same_bits(features, layers, outer, rng):
    points = floats(rng, 11, features)
    for rows in (1, 3, 65):
        x = floats(rng, rows, features)
        y = agrees_in_every_bit(distances(points, layers, outer=outer), x)
        assert not agrees_in_every_bit(distances(points, layers), points)[np.arange(11), np.arange(11)].any()
        wanted = expected(distances(points, layers, outer=outer), {"x": x})["y"]
        # Two orders of a sum of positive numbers, a rounding each, behind one of the difference and one of the square.
        np.testing.assert_allclose(y, wanted, rtol=(features + 3) * 2.0**-23)


@pytest.mark.parametrize("elements", [1, 24, 100])
def test_slices_stand_in_their_order_in_blocks_of_any_size(elements, rng, monkeypatch):
    monkeypatch.setattr(pairwise, "_BLOCK_ELEMENTS", elements)
    source, x = distances(floats(rng, 11, 4)), floats(rng, 3, 4)
    agrees_in_every_bit(source, x)
    monkeypatch.setattr(pairwise, "_MOST_BLOCKS", 4)
    agrees_in_every_bit(source, x)


def test_a_slice_may_stand_first_and_have_more_or_fewer_axes(rng):
    plain = (node("ReduceSum", ["d", "axes"], ["out"], keepdims=0),)
    agrees_in_every_bit(distances(floats(rng, 5, 4), plain, difference=("row", "x_in")), floats(rng, 3, 4))
    agrees_in_every_bit(distances(floats(rng, 5, 3, 4), x=[None], axes=(-1,)), floats(rng, 4))
    agrees_in_every_bit(distances(floats(rng, 5, 4), x=[None] * 3, axes=(0, 2)), floats(rng, 2, 3, 4))
    agrees_in_every_bit(distances(floats(rng, 5, 1)), floats(rng, 3, 4))


def test_what_is_not_finite_stays_so(rng):
    points, x = floats(rng, 6, 5), floats(rng, 4, 5)
    points[1, 2], points[2, 0], x[0, 2], x[3, 3] = np.nan, np.inf, np.inf, -np.inf
    agrees_in_every_bit(distances(points), x)


def test_other_bodies_stay_as_they_are(rng):
    points = floats(rng, 3, 4)
    both = distances(points, difference=("row", "row"), axes=(0,))
    behind = distances(points, (SQUARES[0], node("Sqrt", ["out"], ["root"])))
    before = distances(points)
    for source, result in ((behind, "root"), (before, "d")):
        source.graph.node[0].attribute[0].g.output[1].name = result
    for source in (both, behind, before, distances(points, axes=())):
        assert "pairwise" not in [layer.primitive.kind for layer in unroll(load_onnx(source)).layers]


@pytest.mark.opencl
@pytest.mark.parametrize("rows", [0, 1, 3, 700])
def test_a_compiled_model_agrees_at_any_number_of_rows(rows, rng):
    source, x = distances(floats(rng, 40, 8)), floats(rng, rows, 8)
    compiled = clgraph.compile(source)
    for _ in range(12):
        y = compiled.run({"x": x})["y"]
    np.testing.assert_allclose(y, expected(source, {"x": x})["y"], rtol=11 * 2.0**-23)


@pytest.mark.opencl
def test_rows_of_another_length_are_refused(rng):
    with pytest.raises(ShapeError, match=r"scan.*\[3, 5\] and \[4\] do not broadcast"):
        clgraph.compile(distances(floats(rng, 4, 4))).run({"x": floats(rng, 3, 5)})
