"""Elementwise functions at the ends of float32, infinite, NaN, and where approximations change over."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.errors import ClgraphError
from clgraph.ops.activation import FUNCTIONS, Activation
from clgraph.ops.eltwise import Eltwise
from tests.ops.test_activation import ARGUMENTS, BOUNDS, PARAMETERS, SIMPLE
from tests.support.check_op import check_op
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs

SIZES = [
    *(0, 1e-45, 1e-40, 1.2e-38, 2e-38, 1e-30, 1e-20, 1e-10, 1e-7, 1e-4, 0.01, 0.3, 0.5, 0.693, 0.7, 0.88, 1, 1.5, 2),
    *(2.9, 3, 3.1, 4, 5, 5.3, 5.6, 6, 7, 7.9, 8, 9, 10, 15, 19, 20, 20.5, 30, 44, 60, 80, 86.9, 87.2, 87.4, 88, 88.6),
    *(88.9, 90, 104, 120, 1000, 8191, 8193, 2**22, 2**22 + 0.5, 2**23, 2**24, 1e9, 1e15, 1e18, 1.8e19, 2e19, 1e20),
    *(1e30, 1e37, 5e37, 1e38, 3e38, 3.4028235e38, np.inf, np.nan),
]
NUMBERS = np.array([sign * size for size in SIZES for sign in (1, -1)], np.float32)
DRAW = {0: lambda rng, shape: np.resize(NUMBERS, shape)}
SHAPES = [(1, 16, len(NUMBERS), 2), NUMBERS.shape]
"""Blocks of channels, which the tiles and vectors of all kernels take, and a row with a rest."""


def keeps_its_bound(function, engine):
    alpha, beta = ARGUMENTS.get(function, (0.5, 0.0))
    ulps, scale = BOUNDS.get(function, (0, None))
    for shape in SHAPES:
        with np.errstate(all="ignore"):
            check_op(
                engine, Activation(function, alpha, beta), shape, ulps=ulps, scale=scale, draw=DRAW, families=["normal"]
            )


@pytest.mark.opencl
@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f != "not"])
def test_every_function_keeps_its_bound_everywhere(function, engine):
    keeps_its_bound(function, engine)


@pytest.mark.opencl
@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f != "not"])
def test_every_function_keeps_its_bound_everywhere_on_gpus(function, gpu_engine):
    keeps_its_bound(function, gpu_engine)


# 1 ulp of 2^-23 for what is rounded once, 2.5 ulps of a division.
BINARY = {"add": 1, "sub": 1, "mul": 1, "div": 5, "min": 0, "max": 0, "prelu": 1}


@pytest.mark.opencl
@pytest.mark.parametrize("function", BINARY)
def test_functions_of_two_numbers_keep_their_bound_everywhere(function, engine):
    few = NUMBERS[::3]
    draw = {0: lambda rng, shape: few.reshape(shape), 1: lambda rng, shape: few.reshape(shape)}
    shapes = (len(few), 1), (1, len(few))
    with np.errstate(all="ignore"):
        check_op(engine, Eltwise(function), *shapes, ulps=BINARY[function], draw=draw, families=["normal"])


@pytest.mark.parametrize("op_type", [*SIMPLE, "ThresholdedRelu", "Shrink", "PRelu"])
def test_references_are_those_of_onnxruntime_everywhere(op_type):
    opset = max(SIMPLE.get(op_type, (9,) if op_type == "Shrink" else (16,)))
    inputs = [NUMBERS, np.resize(NUMBERS[::3], NUMBERS.shape)] if op_type == "PRelu" else [NUMBERS]
    # Its own error of 1 + tanh(t) near t = -4 is 2^-24 of what cancels, times x.
    tolerance = {"atol": 1e-6} if op_type == "Gelu" else {"atol": 1e-7}
    for more in ({}, *PARAMETERS.get(op_type, [])):
        with np.errstate(all="ignore"):
            agree(op_type, inputs, opset=opset, **tolerance, **more)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_what_shrink_adds_to_integers_has_a_fraction(dtype):
    agree("Shrink", [np.arange(0 if dtype is np.uint8 else -5, 6).astype(dtype)], opset=9, lambd=1.5, bias=1.5)


def test_limits_of_shrink_are_no_halves():
    x = np.float16([0.7, -0.7, 0.6997, 0.728, 3, np.nan])  # 0.7 as a half is greater than 0.7
    agree("Shrink", [x], opset=9, lambd=0.7, bias=0.2)


WITHIN_1 = ("tanh", "erf", "sigmoid", "hard_sigmoid", "softsign", "sin", "cos")


@pytest.mark.opencl
@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
@pytest.mark.parametrize("function", [*WITHIN_1, "gelu", "gelu_tanh"])
def test_no_function_leaves_its_range(function, device_class, device):
    # Every seventh float from 1 to 16, where results come to lie beside 1.
    x = np.arange(0x3F800000, 0x41800000, 7, dtype=np.int32).view(np.float32)
    x = np.concatenate([x, -x])
    topology = clgraph.Topology()
    topology.output("y", topology.add("f", Activation(function, 0.25, 0.5), topology.input("x", x.shape)))
    y = clgraph.compile(topology, device=device, config={"device_class": device_class}).run({"x": x})["y"]
    if function in WITHIN_1:
        assert np.abs(y).max() <= 1, x[np.argmax(np.abs(y))]
    else:
        assert (y * x >= 0).all(), x[np.argmin(y * x)]


@pytest.mark.opencl
def test_inverse_functions_have_a_value_of_what_their_functions_return(device):
    x = np.linspace(-12, 12, 100_001, dtype=np.float32)
    for op_type, inverse in (("Tanh", "Acos"), ("Erf", "Acos"), ("Erf", "Asin"), ("Tanh", "Atanh")):
        model, feeds = one_node(op_type, [x], opset=13)
        model.graph.node[0].output[0] = "v"
        model.graph.node.append(onnx.helper.make_node(inverse, ["v"], ["y0"]))
        assert not np.isnan(clgraph.compile(model, device=device).run(feeds)["y0"]).any()


@pytest.mark.opencl
@pytest.mark.parametrize("alpha", [1e-40, 0.01, 1.0, 3.0, 1e30])
def test_celu_is_the_identity_above_zero(alpha, device):
    model, feeds = one_node("Celu", [NUMBERS], opset=12, alpha=alpha)
    y = clgraph.compile(model, device=device).run(feeds)["y0"]
    positive = NUMBERS > 0
    np.testing.assert_array_equal(y[positive], NUMBERS[positive])
    exact, a = NUMBERS[NUMBERS < 0].astype(np.float64), float(np.float32(alpha))
    # A rounding of the argument and one of the product, beside those of the function.
    np.testing.assert_allclose(
        y[NUMBERS < 0], a * np.expm1(exact / a), rtol=(8 + 5 + 1) * 2.0**-24, atol=1e-36 * (1 + a)
    )


@pytest.mark.parametrize("alpha", [0.0, -1.0])
def test_celu_without_a_positive_alpha_is_refused_by_name(alpha):
    model, _ = one_node("Celu", [NUMBERS], opset=12, alpha=alpha)
    with pytest.raises(ClgraphError, match="'node' \\(Celu\\)"):
        clgraph.compile(model)


CHAINS = {
    "divided by less than the reciprocal of the largest float": [("Div", 2.0**-140)],
    "a factor beyond the largest float": [("Exp", None), ("Mul", 1e30), ("Mul", 1e30)],
    "a factor below the smallest float": [("Exp", None), ("Mul", 1e-30), ("Mul", 1e-30)],
    "weights beyond the largest float": [("MatMul", [[1.0]]), ("Mul", 1e30), ("Mul", 1e30)],
    "a sum beyond the largest float": [("Exp", None), ("Mul", -1.0), ("Add", 1e38), ("Mul", 10.0)],
}


@pytest.mark.opencl
@pytest.mark.parametrize("steps", CHAINS.values(), ids=CHAINS)
def test_constants_are_joined_only_where_floats_hold_the_result(steps, device):
    model, feeds = one_node("Identity", [np.array([[-80, -2, 0, 87.4982, 60, 1e-42, -np.inf]], np.float32).T], opset=13)
    del model.graph.node[:]
    for i, (op_type, number) in enumerate(steps):
        names = [f"v{i}" if i else "x0"] + ([] if number is None else [f"c{i}"])
        result = f"v{i + 1}" if i + 1 < len(steps) else "y0"
        model.graph.node.append(onnx.helper.make_node(op_type, names, [result]))
        if number is not None:
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(number), f"c{i}"))
    got = clgraph.compile(model, device=device).run(feeds)["y0"]
    (want,) = onnxruntime_outputs(model, feeds)
    # Of a sum that cancels, the exponential's error of 8 units of 2^-24 and one rounding each of what is 1e38, tenfold.
    np.testing.assert_allclose(
        got, want, rtol=16 * 2.0**-24, atol=10 * 10 * 2.0**-24 * 1e38 if "Add" in dict(steps) else 1e-37
    )
