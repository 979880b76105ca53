"""Bags of embeddings as PyTorch's exporter writes them: those of one length need no loop, and are what ONNX Runtime's
loop makes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from clgraph.compilation.even_bags import without_bag_loops
from clgraph.compilation.sources import read_source
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.oracle import expected, worst_error

ROWS, WIDTH = 30, 6
LAST = np.iinfo(np.int64).max


def bags(reduction: str = "ReduceSum", extra: str = "") -> onnx.ModelProto:
    """Return EmbeddingBag of indices ``[bags, length]`` as the traced exporter writes it.

    Args:
        extra: What is different: where bags begin is fed (``offsets``), they begin at the second index (``second``),
            rows are doubled (``doubled``), or a bag is one longer than a row (``long``).
    """
    node = helper.make_node
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
            helper.make_tensor_value_info("trip", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("bag", TensorProto.FLOAT, [WIDTH]),
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
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT64, ["bags", "length"])]
    if extra == "offsets":
        inputs.append(helper.make_tensor_value_info("offsets", TensorProto.INT64, ["of"]))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    data = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "bags", inputs, outputs, data)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.opencl
@pytest.mark.parametrize("reduction", ["ReduceSum", "ReduceMean", "ReduceMax"])
def test_bags_of_one_length_are_reduced_together(reduction: str) -> None:
    import clgraph

    model = bags(reduction)
    assert "loop" not in [x.primitive.kind for x in read_source(model, None, None).layers]
    compiled = clgraph.compile(model)
    for count, length in ((5, 4), (1, 1), (3, 7)):
        x = np.random.default_rng(count).integers(0, ROWS, (count, length))
        # A sum of seven numbers below 6, and its quotient.
        assert worst_error(compiled.run({"x": x}), expected(model, {"x": x})) <= 8 * 2.0**-24


@pytest.mark.parametrize("extra", ["offsets", "second", "doubled", "long"])
def test_other_loops_over_bags_stay(extra: str) -> None:
    source = load_onnx(bags(extra=extra))
    assert without_bag_loops(source) is source


def test_reductions_of_another_axis_or_function_stay() -> None:
    source = load_onnx(bags("ReduceProd"))
    assert without_bag_loops(source) is source
