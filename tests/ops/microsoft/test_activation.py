"""GELU and its approximations with a bias, against ONNX Runtime or their definition."""

from __future__ import annotations

import numpy as np

from clgraph.frontend.onnx_loader import load_onnx
from clgraph.ops.activation import Activation
from tests.support.onnx_case import agree, one_node, reference_outputs

F = np.float32
MICROSOFT = {"opset": 12, "domain": "com.microsoft"}


def run(op_type, inputs):
    model, feeds = one_node(op_type, inputs, **MICROSOFT)
    return reference_outputs(load_onnx(model).build(), feeds)[0]


def test_activations_are_onnxruntimes(rng):
    x, bias = (rng.uniform(-6, 6, shape).astype(F) for shape in ((3, 4, 8), (8,)))
    agree("Gelu", [x], **MICROSOFT)
    agree("QuickGelu", [x], **MICROSOFT)
    agree("QuickGelu", [x], **MICROSOFT, alpha=0.5)
    agree("FastGelu", [x], **MICROSOFT)
    agree("FastGelu", [x, bias], **MICROSOFT)
    agree("BiasGelu", [x, bias], **MICROSOFT)


def test_a_gate_is_half_of_the_columns(rng):
    x, bias = (rng.uniform(-6, 6, shape).astype(F) for shape in ((2, 4, 10), (10,)))
    gate = Activation("gelu").reference((x + bias)[..., 5:])[0]
    np.testing.assert_array_equal(run("BiasSplitGelu", [x, bias]), (x + bias)[..., :5] * gate)


def test_a_bias_and_a_skip_are_added(rng):
    x, bias, skip = (rng.uniform(-6, 6, shape).astype(F) for shape in ((2, 4, 5), (5,), (2, 4, 5)))
    np.testing.assert_array_equal(run("BiasAdd", [x, bias, skip]), x + bias + skip)
