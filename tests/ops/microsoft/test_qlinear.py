"""Operators on integers with scales that ONNX Runtime has beside ONNX's."""

import numpy as np
import pytest
from onnx import helper

from clgraph.errors import UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.ops.matmul import MatMul
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs, reference_outputs
from tests.support.programs import run_until

F = np.float32
ONE = {"opset": 17, "domain": "com.microsoft"}
MICROSOFT = {**ONE, "atol": 1}


def run(op_type, inputs, **more):
    model, feeds = one_node(op_type, inputs, **ONE, **more)
    return reference_outputs(load_onnx(model).build(), feeds)[0]


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_sums_and_products_are_those_of_onnxruntime(op_type, rng):
    """Powers of two as scales make halves of many results, odd zero points part the orders of rounding."""
    shapes = (((2, 3, 4), (3, 1)), ((3, 1), (2, 3, 4)), ((), (40, 50)), ((40, 50), ()), ((1,), (1,)))
    for dtype, low in ((np.uint8, 0), (np.int8, -128)):
        for shape_a, shape_b in shapes:
            a, b = (rng.integers(low, low + 256, s).astype(dtype) for s in (shape_a, shape_b))
            zeros = [dtype(low + z) for z in rng.choice([0, 1, 77, 128, 255], 3)]
            scales = F(0.5), F(0.25), F(2.0 if op_type == "QLinearAdd" else 64.0)
            given = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]]
            for constant in ((1, 2, 4, 5, 6, 7), (1, 2, 3, 4, 5, 6, 7)):
                model, feeds = one_node(op_type, given, **ONE, constant=constant)
                (want,) = onnxruntime_outputs(model, feeds)
                program = run_until(load_onnx(model).build(), "prepare_quantization")
                assert [n.primitive.kind for n in program] == ["quantized_pair"]
                np.testing.assert_array_equal(reference_outputs(program, feeds)[0], want)


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_sums_and_products_by_scales_of_each_run_are_within_a_step(op_type, rng):
    a, b = (rng.integers(0, 256, s).astype(np.uint8) for s in ((2, 3, 4), (3, 1)))
    inputs = [a, F(0.1), np.uint8(120), b, F(0.2), np.uint8(100), F(0.3), np.uint8(128)]
    agree(op_type, inputs, **MICROSOFT)


def test_sums_of_all_pairs_of_bytes_are_those_of_onnxruntime():
    """Rounding each of Dequantize, Add and Quantize makes another byte of one of these pairs."""
    steep, pairs = (0.107911855, 0.064302266, 0.020246834), np.indices((256, 256))
    usual = (0.0313076451420784, 0.02998070977628231, 0.041797883808612823)
    for dtype, low, numbers, zeros in (
        (np.int8, -128, usual, (119, 124, 108)),
        (np.uint8, 0, steep, (171, 206, 5)),
    ):
        scales, (a, b) = np.array(numbers, F), (pairs + low).astype(dtype)
        zeros = [dtype(z + low) for z in zeros]
        given = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]]
        model, feeds = one_node("QLinearAdd", given, **ONE, constant=(1, 2, 4, 5, 6, 7))
        (want,) = onnxruntime_outputs(model, feeds)
        np.testing.assert_array_equal(reference_outputs(load_onnx(model).build(), feeds)[0], want)
        floats = (a.astype(F) - zeros[0]) * scales[0] + (b.astype(F) - zeros[1]) * scales[1]
        plain = np.clip(np.rint(floats / scales[2]) + zeros[2], low, low + 255)
        assert (plain != want).any() or dtype is np.uint8


def test_relatives_are_within_a_step_of_onnxruntime(rng):
    x = rng.integers(0, 256, (2, 3, 6, 4)).astype(np.uint8)
    given = [x, F(0.05), np.uint8(120), F(0.03), np.uint8(100)]
    agree("QLinearGlobalAveragePool", given, **MICROSOFT)
    agree("QLinearAveragePool", given, **MICROSOFT, kernel_shape=[2, 2], strides=[2, 1])
    # Windows that end behind the pads: what they do not reach counts as well, unlike in ONNX's AveragePool.
    for more in ({}, {"pads": [1, 1, 1, 1]}, {"pads": [0, 1, 1, 0], "count_include_pad": 0}, {"pads": [1, 0, 0, 1]}):
        windows = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1} | more
        agree("QLinearAveragePool", given, **MICROSOFT, **windows)
    agree("QLinearSigmoid", [*given[:3], F(1 / 256), np.uint8(0)], constant=(1, 2, 3, 4), **MICROSOFT)
    agree("QLinearLeakyRelu", given, constant=(1, 2, 3, 4), **MICROSOFT, alpha=0.2)
    parts = [F(0.04), np.uint8(90), x, F(0.05), np.uint8(120), x[:, :1], F(0.02), np.uint8(4)]
    agree("QLinearConcat", parts, constant=(0, 1, 3, 4, 6, 7), **MICROSOFT, axis=1)


def test_averages_between_two_steps_are_those_of_onnxruntime(rng):
    """The zero point is added before a half becomes even: with an odd one, others are even."""
    x = rng.integers(0, 256, (2, 3, 8, 8)).astype(np.uint8)
    for dtype, low in ((np.uint8, 0), (np.int8, -128)):
        for zero in (dtype(low), dtype(low + 101), dtype(low + 130)):
            given = [(x.astype(np.int32) + low).astype(dtype), F(0.5), dtype(low + 121), F(1.0), zero]
            for scales_known in ((1, 3), ()):
                model, feeds = one_node(
                    "QLinearAveragePool", given, **ONE, constant=scales_known, kernel_shape=[2, 2], strides=[1, 2]
                )
                (want,) = onnxruntime_outputs(model, feeds)
                np.testing.assert_array_equal(reference_outputs(load_onnx(model).build(), feeds)[0], want)


@pytest.mark.parametrize("columns", [False, True])
def test_gemm_is_within_a_step_of_onnxruntime(columns, rng):
    a, b = rng.integers(0, 256, (3, 8)).astype(np.uint8), rng.integers(0, 100, (5, 8)).astype(np.int8)
    scale = rng.uniform(0.01, 0.02, 5).astype(F) if columns else F(0.01)
    zero = np.zeros(5, np.int8) if columns else np.int8(0)
    bias = rng.integers(-900, 900, 5).astype(np.int32)
    inputs = [a, F(0.1), np.uint8(120), b, scale, zero, bias]
    for end in ([F(0.4), np.uint8(128)], []):
        more = {**MICROSOFT, "transB": 1, "atol": 1 if end else 1e-5}
        agree("QGemm", [*inputs, *end], constant=range(3, 7 + len(end)), **more)


def test_the_bias_of_a_gemm_is_known_to_be_made_of_integers(rng):
    a, b = rng.integers(0, 256, (3, 8)).astype(np.uint8), rng.integers(0, 100, (5, 8)).astype(np.int8)
    bias = rng.integers(-900, 900, 5).astype(np.int32)
    for scale in (F(0.01), rng.uniform(0.01, 0.02, 5).astype(F)):
        inputs = [a, F(0.1), np.uint8(120), b, scale, np.zeros_like(scale, np.int8), bias, F(0.4), np.uint8(128)]
        model, _ = one_node("QGemm", inputs, **ONE, constant=range(1, 9), transB=1)
        program = run_until(load_onnx(model).build(), "fold_constants")
        (product,) = [n for n in program if isinstance(n.primitive, MatMul)]
        np.testing.assert_array_equal(product.inputs[2].integers.data, bias)


def test_zero_points_that_are_absent_are_zero(rng):
    a, b = (rng.integers(0, 256, (3, 4)).astype(np.uint8) for _ in range(2))
    zero = np.uint8(0)
    for op_type in ("QLinearAdd", "QLinearMul"):
        whole = run(op_type, [a, F(0.1), zero, b, F(0.02), zero, F(0.1), zero])
        np.testing.assert_array_equal(run(op_type, [a, F(0.1), None, b, F(0.02), None, F(0.1)]), whole)
    whole = run("QLinearLeakyRelu", [a, F(0.1), zero, F(0.2), zero])
    np.testing.assert_array_equal(run("QLinearLeakyRelu", [a, F(0.1), None, F(0.2)]), whole)
    agree("QLinearSigmoid", [a.astype(np.int8), F(0.02), None, F(1 / 128), None], constant=(1, 3), **MICROSOFT)


def test_a_choice_and_means_are_within_a_step_of_onnxruntime(rng):
    x, y = (rng.integers(-128, 128, (2, 3, 4)).astype(np.int8) for _ in range(2))
    chosen = [rng.integers(0, 2, (3, 4)).astype(np.bool_), x, F(0.1), np.int8(3), y, F(0.2), np.int8(-9)]
    agree("QLinearWhere", [*chosen, F(0.3), np.int8(5)], constant=(2, 3, 5, 6, 7, 8), **MICROSOFT)
    mean = [x, F(0.1), np.int8(3), F(0.05), np.int8(-4)]
    for axes, keepdims in (([1], 1), ([0, -1], 0)):
        floats = ((x.astype(F) - 3) * F(0.1)).mean(tuple(axes), keepdims=bool(keepdims))
        want = np.clip(np.rint(floats / F(0.05)) - 4, -128, 127)
        got = run("QLinearReduceMean", mean, axes=axes, keepdims=keepdims)
        np.testing.assert_allclose(got, want, rtol=0, atol=1)


def test_softmax_goes_by_the_version_that_it_names(rng):
    x = rng.integers(0, 256, (2, 3, 4)).astype(np.uint8)
    given = [x, F(0.05), np.uint8(120), F(1 / 256), np.uint8(0)]
    for opset, axis in ((12, 1), (12, 2), (12, -1), (13, 1), (13, -1)):
        model, feeds = one_node("QLinearSoftmax", given, **ONE, constant=(1, 2, 3, 4), axis=axis)
        model.graph.node[0].attribute.append(helper.make_attribute("opset", opset))
        (got,), (want,) = reference_outputs(load_onnx(model).build(), feeds), onnxruntime_outputs(model, feeds)
        np.testing.assert_allclose(got, want, rtol=0, atol=1)


def test_a_softmax_with_several_scales_of_its_result_is_refused(rng):
    given = [rng.integers(0, 256, (2, 3)).astype(np.uint8), F(0.05), np.uint8(0), np.full(2, 1 / 256, F), np.uint8(0)]
    model, _ = one_node("QLinearSoftmax", given, **ONE, constant=(1, 2, 3, 4), axis=-1)
    model.graph.node[0].attribute.append(helper.make_attribute("opset", 13))
    with pytest.raises(UnsupportedError, match="the scale of the result is one number"):
        load_onnx(model)


def test_softmax_makes_as_many_steps_as_go_into_one_wholly(rng):
    x = rng.integers(0, 256, (500, 9)).astype(np.uint8)
    for scale in (1 / 256, 1 / 255, 0.0029, 1.5):
        given = [x, F(0.05), np.uint8(120), F(scale), np.uint8(0)]
        model, feeds = one_node("QLinearSoftmax", given, **ONE, constant=(1, 2, 3, 4), axis=-1)
        model.graph.node[0].attribute.append(helper.make_attribute("opset", 13))
        (got,), (want,) = reference_outputs(load_onnx(model).build(), feeds), onnxruntime_outputs(model, feeds)
        # An exponential of a table, of 23 bits, may lie on the other side of a half.
        assert np.mean(got != want) <= 2e-3
        np.testing.assert_allclose(got, want, rtol=0, atol=1)


def test_images_may_have_their_channels_last(rng):
    x = rng.integers(0, 256, (2, 6, 5, 4)).astype(np.uint8)
    w = rng.integers(-100, 100, (6, 4, 3, 3)).astype(np.int8)
    quantised = [x, F(0.05), np.uint8(120), w, F(0.01), np.int8(0), F(0.4), np.uint8(100)]
    last = {**MICROSOFT, "channels_last": 1}
    agree("QLinearConv", quantised, constant=range(1, 8), **last, pads=[1, 0, 1, 1], strides=[2, 1])
    given = [x, F(0.05), np.uint8(120), F(0.03), np.uint8(100)]
    agree("QLinearGlobalAveragePool", given, constant=range(1, 5), **last)
    agree("QLinearAveragePool", given, constant=range(1, 5), **last, kernel_shape=[2, 2], strides=[1, 2])
    agree("NhwcMaxPool", [x], **MICROSOFT, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])


def test_the_product_has_a_factor(rng):
    a, b = rng.integers(0, 256, (3, 8)).astype(np.uint8), rng.integers(0, 100, (8, 5)).astype(np.int8)
    inputs = [a, F(0.1), np.uint8(120), b, F(0.015), np.int8(0), rng.integers(-900, 900, 5).astype(np.int32)]
    for end in ([F(0.4), np.uint8(128)], []):
        more = {**MICROSOFT, "alpha": 0.5, "atol": 1 if end else 1e-5}
        agree("QGemm", [*inputs, *end], constant=range(3, 7 + len(end)), **more)


def test_inputs_that_are_no_parts_are_refused():
    x = np.zeros((1, 2), np.uint8)
    model, _ = one_node("QLinearConcat", [F(1), np.uint8(0), x, F(1)], **ONE, axis=0)
    with pytest.raises(UnsupportedError, match="2 inputs are not parts with a scale and a zero point each"):
        load_onnx(model)
