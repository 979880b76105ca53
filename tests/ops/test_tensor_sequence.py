"""Sequences of tensors, against ONNX Runtime: every place, from both ends, and those that there are not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.errors import ShapeError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.onnx_case import onnxruntime_outputs

NAMES = ("a", "b", "c")
FEEDS = {name: np.full((2, 3), i, np.float32) for i, name in enumerate((*NAMES, "x"))}


def changed(operator: str, place: int | None) -> onnx.ModelProto:
    """Return a model that changes a sequence of three at *place* and gives what is in it then."""
    places = [] if place is None else ["place"]
    more = {"SequenceInsert": ["x"]}.get(operator, [])
    nodes = [helper.make_node("SequenceConstruct", NAMES, ["s"])]
    if operator == "SequenceAt":
        nodes.append(helper.make_node("SequenceAt", ["s", *places], ["y"]))
    else:
        nodes.append(helper.make_node(operator, ["s", *more, *places], ["t"]))
        nodes.append(helper.make_node("ConcatFromSequence", ["t"], ["y"], axis=0))
    graph = helper.make_graph(
        nodes,
        "sequence",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in (*NAMES, *more)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(place, np.int64), "place")] if places else [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


PLACES = {"SequenceAt": (-3, 2), "SequenceErase": (-3, 2), "SequenceInsert": (-3, 3)}
"""The first and the last place that an operator takes."""


@pytest.mark.parametrize("operator", PLACES)
def test_places_count_from_both_ends(operator: str) -> None:
    first, last = PLACES[operator]
    for place in (*range(first, last + 1), *([] if operator == "SequenceAt" else [None])):
        model = changed(operator, place)
        feeds = {v.name: FEEDS[v.name] for v in model.graph.input}
        (wanted,) = onnxruntime_outputs(model, feeds)
        np.testing.assert_array_equal(clgraph.compile(model, "host").run(feeds)["y"], wanted, f"{operator} {place}")


@pytest.mark.parametrize("operator", PLACES)
def test_a_place_outside_of_the_sequence_is_an_error(operator: str) -> None:
    first, last = PLACES[operator]
    for place in (first - 1, last + 1):
        model = changed(operator, place)
        feeds = {v.name: FEEDS[v.name] for v in model.graph.input}
        with pytest.raises(ShapeError, match=f"place {place} is outside of a sequence of 3 tensors"):
            clgraph.compile(model, "host").run(feeds)


PARTS = (((5, 2), 0, 1), ((1, 2), -2, 3), ((2, 5), 1, 1), ((0, 3), 0, 2), ((4, 2), 0, None))
"""Shapes, axes, and the one size of all parts."""


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("shape", "axis", "size"), PARTS)
def test_parts_of_one_size_lose_their_axis_where_onnxruntime_drops_it(shape, axis, size, keepdims) -> None:
    """torch's ``unbind`` is exported as parts of size 1 without their axis."""
    sizes = [] if size is None else ["size"]
    nodes = [helper.make_node("SplitToSequence", ["x", *sizes], ["s"], axis=axis, keepdims=keepdims)]
    nodes.append(helper.make_node("SequenceLength", ["s"], ["n"]))
    graph = helper.make_graph(
        nodes,
        "parts",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [
            helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("n", TensorProto.INT64, []),
        ],
        [numpy_helper.from_array(np.array(size, np.int64), "size")] if sizes else [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}
    wanted, count = onnxruntime_outputs(model, feeds)
    found = clgraph.compile(model, "host").run(feeds)
    assert (int(count), len(found["s"])) == (len(wanted), len(wanted))
    for mine, theirs in zip(found["s"], wanted, strict=True):
        np.testing.assert_array_equal(mine, theirs, strict=True)


def test_a_sequence_of_constants_is_none_of_the_values_that_shapes_are_bound_with() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g () => (float[2] y) {'
        "  a = Constant <value = float[2] {1, 2}> () s = SequenceConstruct(a)"
        "  i = Constant <value = int64 {0}> () y = SequenceAt(s, i) }"
    )
    with pytest.raises(UnsupportedError, match="cuts it into stages"):
        load_onnx(model).build({})
    np.testing.assert_array_equal(clgraph.compile(model, device="host").run({})["y"], [1, 2])
