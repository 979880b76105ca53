"""Bags of embeddings as PyTorch's exporters write them: those of one length need no loop, and are what ONNX Runtime's
loop makes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from clgraph.compilation.idioms.even_bags import with_bags_together
from clgraph.compilation.sources import read_source
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.oracle import expected, worst_error

ROWS, WIDTH, LENGTH = 30, 6, 4
LAST = np.iinfo(np.int64).max


def loop_of_bags(reduction: str = "ReduceSum", extra: str = "") -> onnx.ModelProto:
    """Return EmbeddingBag of indices ``[bags, length]`` as the traced exporter writes it.

    Args:
        extra: What is different: where bags begin is fed (``offsets``), they begin at the second index (``second``),
            rows are doubled (``doubled``), or a bag is one longer than a row (``long``).
    """
    node, info = helper.make_node, helper.make_tensor_value_info
    constants = {
        "zero": np.array(0), "one": np.array(1), "zeros": np.array([0]), "ones": np.array([1]), "any": np.array([-1]),
        "last": np.array([LAST]), "yes": np.array(True), "two": np.array(2, np.float32),
        "table": np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32),
    }  # fmt: skip
    inner = [
        node("Gather", ["starts", "trip"], ["start"], axis=0),
        node("Gather", ["ends", "trip"], ["end"], axis=0),
        node("Unsqueeze", ["start", "zeros"], ["from"]),
        node("Unsqueeze", ["end", "zeros"], ["to"]),
        node("Slice", ["flat", "from", "to", "zeros"], ["part"]),
        node("Gather", ["table", "part"], ["rows"], axis=0),
        *([node("Mul", ["rows", "two"], ["twice"])] if extra == "doubled" else []),
        node(reduction, ["twice" if extra == "doubled" else "rows", "zeros"], ["bag"], keepdims=0),
        node("Cast", ["yes"], ["on"], to=TensorProto.BOOL),
    ]
    body = helper.make_graph(
        inner,
        "body",
        [
            info("trip", TensorProto.INT64, []),
            info("going", TensorProto.BOOL, []),
        ],
        [
            info("on", TensorProto.BOOL, []),
            info("bag", TensorProto.FLOAT, [WIDTH]),
        ],
    )
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("ReduceProd", ["shape"], ["count"], keepdims=0),
        node("Gather", ["shape", "one"], ["length"], axis=0),
        *([node("Add", ["length", "one"], ["longer"])] if extra == "long" else []),
        node("Cast", ["longer" if extra == "long" else "length"], ["step"], to=TensorProto.INT64),
        node("Range", ["one" if extra == "second" else "zero", "count", "step"], ["range"]),
        node("Reshape", ["x", "any"], ["flat"]),
        node("Shape", ["flat"], ["size"]),
        node("Gather", ["size", "zero"], ["whole"], axis=0),
        node("Unsqueeze", ["whole", "zeros"], ["end of all"]),
        node("Concat", ["offsets" if extra == "offsets" else "range", "end of all"], ["starts"], axis=0),
        node("Slice", ["starts", "ones", "last", "zeros", "ones"], ["ends"]),
        node("Shape", ["ends"], ["bags shape"]),
        node("Gather", ["bags shape", "zero"], ["bags"], axis=0),
        node("Loop", ["bags", "yes"], ["y"], body=body),
    ]
    inputs = [info("x", TensorProto.INT64, ["bags", "length"])]
    if extra == "offsets":
        inputs.append(info("offsets", TensorProto.INT64, ["of"]))
    outputs = [info("y", TensorProto.FLOAT, None)]
    data = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "bags", inputs, outputs, data)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def sequence_of_bags(reduction: str = "ReduceSum", extra: str = "") -> onnx.ModelProto:
    """Return EmbeddingBag of indices ``[bags, 4]`` as torchlib writes it.

    Args:
        extra: What is different: bags are one longer than rows of the indices (``long``), where they begin is fed
            (``offsets``), every second one is made (``second``), or the sequence has a first element (``begun``).
    """
    node, info = helper.make_node, helper.make_tensor_value_info
    step = LENGTH + (extra == "long")
    numbers = {
        "zero": np.array(0), "one": np.array(1), "two": np.array(2), "step": np.array(step), "any": np.array([-1]),
        "axis 0": np.array([0]), "axis 1": np.array([1]), "none": np.zeros((1, WIDTH), np.float32),
        "table": np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32),
    }  # fmt: skip
    empty = helper.make_graph([node("Identity", ["none"], ["then"])], "empty", [], [info("then", 1, [1, WIDTH])])
    some = helper.make_graph(
        [node("Slice", ["weighted", "start", "end"], ["rows"]), node(reduction, ["rows", "axis 0"], ["else"])],
        "some",
        [],
        [info("else", 1, [1, WIDTH])],
    )
    index = info("index", TensorProto.INT64, [])
    made, more = (helper.make_tensor_sequence_value_info(name, 1, None) for name in ("made", "more"))
    body = helper.make_graph(
        [
            node("Reshape", ["index", "any"], ["at"]),
            node("CastLike", ["one", "at"], ["one like"]),
            node("Add", ["at", "one like"], ["next"]),
            node("CastLike", ["two", "at"], ["two like"]),
            node("Add", ["at", "two like"], ["second next"]),
            node("Slice", ["offsets", "at", "next"], ["start"]),
            node("Slice", ["offsets", "next", "second next"], ["end"]),
            node("Equal", ["start", "end"], ["is empty"]),
            node("If", ["is empty"], ["bag"], then_branch=empty, else_branch=some),
            node("SequenceInsert", ["made", "bag"], ["more"]),
            node("Add", ["index", "two" if extra == "second" else "one"], ["following"]),
            node("Less", ["following", "count"], ["going on"]),
        ],
        "body",
        [info("trip", TensorProto.INT64, []), info("going", TensorProto.BOOL, []), index, made],
        [info("going on", TensorProto.BOOL, []), info("following", TensorProto.INT64, []), more],
    )
    nodes = [
        node("Shape", ["x"], ["first size"], start=0, end=1),
        node("Squeeze", ["first size"], ["rows of x"]),
        node("Mul", ["step", "rows of x"], ["limit"]),
        node("Range", ["zero", "limit", "step"], ["range"]),
        node("Reshape", ["x", "any"], ["flat"]),
        node("Gather", ["table", "flat"], ["weighted"]),
        node("Shape", ["flat"], ["all"]),
        node("Size", ["given" if extra == "offsets" else "range"], ["count"]),
        node("Concat", ["given" if extra == "offsets" else "range", "all"], ["offsets"], axis=0),
        *(
            [node("SequenceConstruct", ["none"], ["empty"])]
            if extra == "begun"
            else [node("SequenceEmpty", [], ["empty"])]
        ),
        node("Less", ["zero", "count"], ["begin"]),
        node("Loop", ["", "begin", "zero", "empty"], ["last", "sequence"], body=body),
        node("ConcatFromSequence", ["sequence"], ["y"], axis=0),
    ]
    inputs = [info("x", TensorProto.INT64, ["bags", LENGTH])]
    inputs += [info("given", TensorProto.INT64, ["of"])] * (extra == "offsets")
    data = [numpy_helper.from_array(array, name) for name, array in numbers.items()]
    graph = helper.make_graph(nodes, "bags", inputs, [info("y", TensorProto.FLOAT, None)], data)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.opencl
@pytest.mark.parametrize("reduction", ["ReduceSum", "ReduceMean", "ReduceMax"])
@pytest.mark.parametrize(
    ("bags", "shapes"),
    [(loop_of_bags, ((5, 4), (1, 1), (3, 7))), (sequence_of_bags, ((5, LENGTH), (1, LENGTH), (3, LENGTH)))],
)
def test_bags_of_one_length_are_reduced_together(
    bags: Callable[[str], onnx.ModelProto], shapes: tuple[tuple[int, int], ...], reduction: str
) -> None:
    import clgraph

    model = bags(reduction)
    assert "loop" not in [x.primitive.kind for x in read_source(model, None, None).layers]
    compiled = clgraph.compile(model)
    for count, length in shapes:
        x = np.random.default_rng(count).integers(0, ROWS, (count, length))
        # A sum of as many numbers below 6, and its quotient.
        assert worst_error(compiled.run({"x": x}), expected(model, {"x": x})) <= (length + 1) * 2.0**-24


@pytest.mark.parametrize("extra", ["offsets", "second", "doubled", "long"])
def test_other_loops_over_bags_stay(extra: str) -> None:
    source = load_onnx(loop_of_bags(extra=extra))
    assert with_bags_together(source) is source


@pytest.mark.parametrize("extra", ["long", "offsets", "second", "begun"])
def test_other_sequences_of_bags_stay(extra: str) -> None:
    source = load_onnx(sequence_of_bags(extra=extra))
    assert with_bags_together(source) is source


@pytest.mark.parametrize("bags", [loop_of_bags, sequence_of_bags])
def test_other_reductions_stay(bags: Callable[[str], onnx.ModelProto]) -> None:
    source = load_onnx(bags("ReduceProd"))
    assert with_bags_together(source) is source
