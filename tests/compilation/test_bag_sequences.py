"""Bags of embeddings as torch.export's exporter writes them: those of one length need no loop."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from clgraph.compilation.bag_sequences import without_bag_sequences
from clgraph.compilation.sources import read_source
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.oracle import expected, worst_error

ROWS, WIDTH, LENGTH = 30, 6, 4


def bags(reduction: str = "ReduceSum", extra: str = "") -> onnx.ModelProto:
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
def test_bags_of_one_length_are_reduced_together(reduction: str) -> None:
    import clgraph

    model = bags(reduction)
    assert "loop" not in [x.primitive.kind for x in read_source(model, None, None).layers]
    compiled = clgraph.compile(model)
    for count in (5, 1, 3):
        x = np.random.default_rng(count).integers(0, ROWS, (count, LENGTH))
        # A sum of four numbers below 6, and its quotient.
        assert worst_error(compiled.run({"x": x}), expected(model, {"x": x})) <= 5 * 2.0**-24


@pytest.mark.parametrize("extra", ["long", "offsets", "second", "begun"])
def test_other_sequences_of_bags_stay(extra: str) -> None:
    source = load_onnx(bags(extra=extra))
    assert without_bag_sequences(source) is source


def test_other_reductions_stay() -> None:
    source = load_onnx(bags("ReduceProd"))
    assert without_bag_sequences(source) is source
