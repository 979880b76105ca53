"""QLinearConv, QLinearMatMul and DynamicQuantizeLinear."""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import clgraph
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs, reference_outputs

F, U = np.float32, np.uint8
CONTRIB = {"opset": 17, "domain": "com.microsoft"}


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("types", [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
def test_convolutions_are_within_a_step_of_onnxruntime(types, bias, per_channel, rng):
    x = rng.integers(0, 100, (2, 4, 7, 6)).astype(types[0])
    w = rng.integers(0, 100, (6, 2, 3, 3)).astype(types[1])
    scale = rng.uniform(0.01, 0.02, 6).astype(F) if per_channel else F(0.015)
    zero = np.full(6, 0 if types[1] == np.int8 else 40, types[1]) if per_channel else types[1](0)
    inputs = [x, F(0.05), types[0](50), w, scale, zero, F(0.4), types[0](20)]
    inputs += [rng.integers(-900, 900, 6).astype(np.int32)] if bias else []
    constant = range(3, len(inputs))
    agree("QLinearConv", inputs, opset=10, constant=constant, atol=1, group=2, pads=[1, 0, 1, 2], strides=[1, 2])


@pytest.mark.parametrize("constant", [(), (3, 4, 5, 6, 7)])
@pytest.mark.parametrize("columns", [False, True])
def test_products_are_within_a_step_of_onnxruntime(columns, constant, rng):
    a, b = rng.integers(0, 256, (2, 3, 8)).astype(np.uint8), rng.integers(0, 100, (8, 5)).astype(np.int8)
    scale = rng.uniform(0.01, 0.02, 5).astype(F) if columns else F(0.01)
    zero = np.zeros(5, np.int8) if columns else np.int8(3)
    agree(
        "QLinearMatMul",
        [a, F(0.1), np.uint8(120), b, scale, zero, F(0.05), np.uint8(128)],
        opset=10,
        constant=constant,
        atol=1,
    )


MIXED = {
    "QLinearConv": [(1, 2, 6, 5), F(0.05), U(50), (4, 2, 3, 3), F(0.015), U(40), F(2), U(120)],
    "QLinearMatMul": [(3, 8), F(0.1), U(120), (8, 5), F(0.01), U(3), F(0.5), U(128)],
    "QLinearLeakyRelu": [(3, 8), F(0.1), U(120), F(0.05), U(3)],
    "QuantizeLinear": [(3, 8), F(0.1), U(120)],
    "DequantizeLinear": [(3, 8), F(0.1), U(120)],
}


@pytest.mark.parametrize("op_type", MIXED)
def test_one_number_may_be_a_scalar_beside_another_in_an_array(op_type, rng):
    kind, more = F if op_type == "QuantizeLinear" else U, CONTRIB if "Leaky" in op_type else {"opset": 13}
    drawn = [rng.integers(0, 256, a).astype(kind) if isinstance(a, tuple) else a for a in MIXED[op_type]]
    parameters = [i for i, a in enumerate(MIXED[op_type]) if not isinstance(a, tuple)]
    for first in (0, 1):
        mixed = list(drawn)
        for place in parameters[first::2]:
            mixed[place] = np.reshape(drawn[place], (1,))
        for constant in (parameters, ()):
            agree(op_type, mixed, **more, constant=constant, atol=1)


def test_products_with_scales_in_float16_are_those_of_the_standards_reference(rng):
    a, b = rng.integers(-128, 128, (60, 40)).astype(np.int8), rng.integers(-128, 128, (40, 50)).astype(np.int8)
    # Steps of a result of 0.07: b rounded to halves would move sums of 40 products by whole steps.
    scales = np.array([0.0066], np.float16), np.array(0.00705, np.float16), np.array([0.0107], np.float16)
    inputs = [a, scales[0], np.int8(-14), b, scales[1], np.int8(-13), scales[2], np.int8(-9)]
    model, feeds = one_node("QLinearMatMul", inputs, opset=21, constant=range(3, 8))
    (want,) = ReferenceEvaluator(model).run(None, feeds)
    (got,) = reference_outputs(load_onnx(model).build(), feeds)
    assert len(np.unique(want)) > 8
    np.testing.assert_array_equal(got, want)


def test_the_range_of_x_and_zero_is_covered(rng):
    for x in (rng.standard_normal((3, 4)), rng.uniform(1, 2, 5), -rng.uniform(1, 2, 5)):
        agree("DynamicQuantizeLinear", [x.astype(F)], opset=11, outputs=3)


RANGES = {
    "zeros": [0, -0.0, 0],
    "equal": [3, 3, 3],
    "equal and negative": [-2, -2],
    "one": [0.5],
    "small": [1e-38, -1e-39],
    "nothing but halves": [2.55, -0.0, 1.275, 0.005, 0.015],
    "infinite": [1, np.inf, -2],
    "wider than floats": [3e38, -3e38, 1],
}


@pytest.mark.opencl
@pytest.mark.parametrize("x", RANGES.values(), ids=RANGES)
def test_ranges_that_are_odd_are_covered_like_onnxruntime_does(x, device):
    model, feeds = one_node("DynamicQuantizeLinear", [np.array(x, F)], opset=11, outputs=3)
    got = clgraph.compile(model, device=device).run(feeds).values()
    for mine, theirs in zip(got, onnxruntime_outputs(model, feeds), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.opencl
def test_a_range_below_every_scale_is_none_and_nan_is_passed_on_by_the_scale(device):
    for x, scale in (([1e-45, 0], 1), ([1, np.nan], np.nan)):
        model, feeds = one_node("DynamicQuantizeLinear", [np.array(x, F)], opset=11, outputs=3)
        y, made, _ = clgraph.compile(model, device=device).run(feeds).values()
        np.testing.assert_array_equal(made, F(scale))
        assert not y.any()
