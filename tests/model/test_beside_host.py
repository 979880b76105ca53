"""Conversions of what the host has made: on the host where a device waits longer for them than they take."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import clgraph
from tests.support.oracle import expected

pytestmark = pytest.mark.opencl


def numbers(to, before=()):
    """A support vector machine, which the host computes, and a conversion of its result."""
    given = {"support_vectors": [1.0, 1.0, 3.0, 3.0], "n_supports": 2, "coefficients": [0.5, -0.5], "rho": [0.05]}
    options = {**given, "kernel_type": "RBF", "kernel_params": [0.1, 0.0, 3.0]}
    nodes = [
        helper.make_node("SVMRegressor", ["x"], ["s"], domain="ai.onnx.ml", **options),
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
        # Halves of two kernels e^-t, float32 there: 4 u of t, at most 4 u / e of e^-t, 2 u of it, and three roundings.
        np.testing.assert_allclose(got, expected(source, {"x": x})["y"], rtol=0, atol=8 * 2.0**-24)
        assert "placement   pocl" not in str(model.explain())


def test_what_rounds_goes_to_the_device(rng):
    for source in (numbers(TensorProto.FLOAT16), numbers(TensorProto.DOUBLE, [helper.make_node("Exp", ["s"], ["t"])])):
        with clgraph.compile(source) as model:
            model.run({"x": rng.standard_normal((3, 2)).astype(np.float32)})
            assert "placement   pocl" in str(model.explain())
