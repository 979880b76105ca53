"""Conversions of what the host has made: on the host where a device waits longer for them than they take."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import clgraph
from tests.support.oracle import expected

pytestmark = pytest.mark.opencl


def numbers(to, before=()):
    """Scores without support vectors, which the host computes, and a conversion of them."""
    options = {"coefficients": [0.5, -0.5, 0.25, 1.0, 0.75, -2.0], "rho": [0.05], "classlabels_ints": [0, 1, 2]}
    options |= {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 3.0]}
    nodes = [
        helper.make_node("SVMClassifier", ["x"], ["label", "s"], domain="ai.onnx.ml", **options),
        *before,
        helper.make_node("Cast", ["t" if before else "s"], ["y"], to=to),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])
    graph = helper.make_graph(nodes, "g", [x], [helper.make_tensor_value_info("y", to, None)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_an_exact_conversion_of_what_the_host_made_stays_there(rng):
    source, x = numbers(TensorProto.DOUBLE), rng.standard_normal((3, 2)).astype(np.float32)
    with clgraph.compile(source) as model:
        got = model.run({"x": x})["y"]
        # Two products and two sums, float32 there; here one rounding.
        size = np.abs(x) @ np.abs(np.array([[0.5, 0.25, 0.75], [0.5, 1, 2]])) + 0.05
        assert (np.abs(got - expected(source, {"x": x})["y"]) <= 5 * 2.0**-24 * size).all()
        assert "placement   pocl" not in str(model.explain())


def test_what_rounds_goes_to_the_device(rng):
    for source in (numbers(TensorProto.FLOAT16), numbers(TensorProto.DOUBLE, [helper.make_node("Exp", ["s"], ["t"])])):
        with clgraph.compile(source) as model:
            model.run({"x": rng.standard_normal((3, 2)).astype(np.float32)})
            assert "placement   pocl" in str(model.explain())
