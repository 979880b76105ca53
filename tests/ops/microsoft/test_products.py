"""Products and convolutions that ONNX Runtime fuses with what stands around them, against it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from clgraph.errors import UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.drawing import normal
from tests.support.onnx_case import agree, one_node, reference_outputs

F = np.float32
MICROSOFT = {"opset": 17, "domain": "com.microsoft"}
ACTIVATIONS = {
    "": [],
    "Relu": [],
    "Tanh": [],
    "Sigmoid": [],
    "LeakyRelu": [0.2],
    "Clip": [-0.5, 0.75],
    "HardSigmoid": [0.3, 0.4],
}
FUSED_GEMM = {
    "Relu": {},
    "Elu": {"alpha": 0.7},
    "LeakyRelu": {"alpha": 0.3},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "Selu": {"alpha": 1.5, "gamma": 1.2},
    "Softplus": {},
    "Softsign": {},
    "ThresholdedRelu": {"alpha": 0.5},
}


def run(op_type, inputs, **more):
    model, feeds = one_node(op_type, inputs, **MICROSOFT, **more)
    return reference_outputs(load_onnx(model).build(), feeds)[0]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_convolution_with_sum_and_activation_is_onnxruntimes(activation, rng):
    x, w, b, z = normal(rng, 1, 4, 6, 5), normal(rng, 6, 2, 3, 3), normal(rng, 6), normal(rng, 1, 6, 6, 5)
    named = {"activation": activation} if activation else {}
    named |= {"activation_params": ACTIVATIONS[activation]} if ACTIVATIONS[activation] else {}
    window = {**MICROSOFT, "group": 2, "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    for inputs in ([x, w], [x, w, b], [x, w, b, z], [x, w, None, z]):
        agree("FusedConv", inputs, **window, **named)


def test_parameters_that_an_activation_does_not_have_are_refused(rng):
    x, w = normal(rng, 1, 2, 3, 3), normal(rng, 2, 2, 1, 1)
    for name, parameters, why in (
        ("Clip", [0.0, 1.0, 2.0], "Clip has 2 parameters, not 3"),
        ("Snake", [1.0], "'Snake' is not one of Clip, Elu"),
    ):
        model, _ = one_node("FusedConv", [x, w], **MICROSOFT, activation=name, activation_params=parameters)
        with pytest.raises(UnsupportedError, match=f"'node' \\(FusedConv\\): the activation {why}"):
            load_onnx(model)


def test_channels_that_come_last_give_the_same_convolution(rng):
    x, w, b, z = normal(rng, 2, 4, 6, 5), normal(rng, 6, 4, 3, 2), normal(rng, 6), normal(rng, 2, 6, 3, 4)
    window = {"strides": [2, 1], "pads": [1, 0, 1, 0]}
    turned = [np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (x, z)]
    want = run("FusedConv", [x, w, b, z], **window, activation="Relu").transpose(0, 2, 3, 1)
    got = run("NhwcFusedConv", [turned[0], w, b, turned[1]], **window, activation="Relu")
    np.testing.assert_array_equal(got, want)
    want = run("FusedConv", [x, w, b], **window).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(run("NhwcConv", [turned[0], w, b], **window), want)


@pytest.mark.parametrize("activation", FUSED_GEMM)
def test_gemm_with_an_activation_is_onnxruntimes(activation, rng):
    parameters = {f"activation_{name}": value for name, value in FUSED_GEMM[activation].items()}
    inputs = [normal(rng, 6, 3), normal(rng, 5, 6), normal(rng, 5)]
    gemm = {"alpha": 0.5, "beta": 0.25, "transA": 1, "transB": 1}
    agree("FusedGemm", inputs, **MICROSOFT, **gemm, activation=activation, **parameters)


def test_products_of_turned_matrices_are_onnxruntimes(rng):
    a, b = normal(rng, 2, 3, 4, 5), normal(rng, 3, 5, 6)
    for left, right in itertools.product((0, 1), repeat=2):
        inputs = [a.swapaxes(2, 3) if left else a, b.swapaxes(1, 2) if right else b]
        inputs = [np.ascontiguousarray(x) for x in inputs]
        agree("FusedMatMul", inputs, **MICROSOFT, transA=left, transB=right, alpha=0.3)
        agree("TransposeMatMul", inputs, **MICROSOFT, transA=left, transB=right)
    agree("FusedMatMul", [normal(rng, 5), b], **MICROSOFT, alpha=2.0)


def test_products_whose_batch_stands_inside_the_matrix_are_onnxruntimes(rng):
    a, b = normal(rng, 4, 2, 3, 5), normal(rng, 5, 2, 3, 6)
    batched = {**MICROSOFT, "transBatchA": 1, "transBatchB": 1}
    agree("FusedMatMul", [a, b], **batched)
    turned = [np.ascontiguousarray(x.swapaxes(0, 3)) for x in (a, b)]
    agree("FusedMatMul", turned, **batched, transA=1, transB=1, alpha=0.5)
    got = run("FusedMatMulActivation", [a, b], transBatchA=1, transBatchB=1, activation="Relu")
    want = np.maximum(np.einsum("mabk,kabn->abmn", a, b), 0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    got = run("FusedMatMulActivation", [a[0], b[:, 0, 0]], activation="Softmax", activation_axis=-1, alpha=0.5)
    np.testing.assert_allclose(got.sum(-1), 1, rtol=1e-6)


def test_integers_that_become_floats_are_onnxruntimes(rng):
    a, b = rng.integers(0, 256, (2, 3, 8)).astype(np.uint8), rng.integers(-128, 128, (8, 5)).astype(np.int8)
    columns = [rng.uniform(0.01, 0.02, 5).astype(F), rng.integers(-9, 9, 5).astype(np.int8)]
    for scale, zero in ((F([0.01]), np.int8([3])), columns):
        inputs = [a, b, F([0.05]), scale, np.uint8([120]), zero, normal(rng, 5)]
        agree("MatMulIntegerToFloat", inputs, **MICROSOFT, constant=(1, 3, 5, 6))
        agree("MatMulIntegerToFloat", inputs[:4], **MICROSOFT)
        floats = [normal(rng, 2, 3, 8), b, scale, zero, inputs[-1]]
        agree("DynamicQuantizeMatMul", floats, **MICROSOFT, constant=(1, 2, 3, 4))
        agree("DynamicQuantizeMatMul", [*floats[:3], None, floats[4]], **MICROSOFT)


def test_the_pads_of_a_transposed_convolution_may_be_an_input(rng):
    x, w, b = normal(rng, 1, 3, 4, 5), normal(rng, 3, 2, 3, 3), normal(rng, 2)
    pads = np.array([1, 0, 1, 2])
    window = {**MICROSOFT, "strides": [2, 1]}
    agree("ConvTransposeWithDynamicPads", [x, w, pads, b], **window, constant=(2,))
    agree("ConvTransposeWithDynamicPads", [x, w, pads], **window, constant=(2,), output_padding=[1, 0])
    got = run("ConvTransposeWithDynamicPads", [x, w], strides=[2, 1])
    none = run("ConvTransposeWithDynamicPads", [x, w, pads * 0], strides=[2, 1], constant=(2,))
    np.testing.assert_array_equal(got, none)
