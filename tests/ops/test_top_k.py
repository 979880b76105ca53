"""The best elements along an axis."""

import numpy as np
import pytest
from onnx import helper

import clgraph
from tests.support.graphs import FLOAT, INT, agrees, graph, model
from tests.support.onnx_case import agree


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, -1, 1])
def test_top_k_agrees_with_onnxruntime(axis, largest, rng):
    for x in (rng.standard_normal((5, 7, 6)).astype(np.float32), rng.integers(-3, 3, (5, 7, 6))):
        agree("TopK", [x, np.array([4])], opset=11, constant=(1,), outputs=2, axis=axis, largest=largest)


def test_the_first_of_equal_ones_comes_first(rng):
    x = np.array([[2, 5, 5, 1, 5]], np.float32)
    program = agree("TopK", [x, np.array([3])], opset=11, constant=(1,), outputs=2)
    (_, places) = next(iter(program)).reference(x)
    assert places.tolist() == [[1, 2, 4]]


@pytest.mark.opencl
def test_a_number_that_the_network_computes_is_read(device, rng):
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=1),
        helper.make_node("Cast", ["most"], ["wide"], to=INT),
        helper.make_node("Reshape", ["wide", "one"], ["k"]),
        helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=1),
    ]
    outputs = [("values", FLOAT, None), ("places", INT, None)]
    source = model(graph(nodes, [("x", FLOAT, [1, 20])], outputs, one=np.array([1])))
    made = clgraph.compile(source, device=device)
    for most in (1, 7, 20):
        x = rng.uniform(0, 1, (1, 20)).astype(np.float32)
        x[0, 5] = most
        agrees(made, source, {"x": x})
