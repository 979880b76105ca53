"""Unary functions."""

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.activation import FUNCTIONS, Activation
from clgraph.ops.eltwise import Eltwise
from tests.support.check_op import check_op
from tests.support.onnx_case import agree

SIMPLE = {
    "Relu": (7, 13, 14), "Sigmoid": (7, 13), "Tanh": (7, 13), "Exp": (7, 13), "Log": (7, 13), "Sqrt": (7, 13),
    "Reciprocal": (7, 13), "Neg": (7, 13), "Abs": (7, 13), "Erf": (9, 13), "Floor": (7, 13), "Ceil": (7, 13),
    "Round": (11, 22), "Softplus": (7, 22), "Softsign": (7, 22), "Sin": (7, 22), "Cos": (7, 22), "Sign": (9, 13),
    "Mish": (18, 22), "LeakyRelu": (7, 16), "Elu": (7, 22), "HardSigmoid": (7, 22), "HardSwish": (14, 22),
    "Gelu": (20,), "Selu": (7, 22), "Celu": (12,),
}  # fmt: skip
PARAMETERS = {
    "LeakyRelu": [{"alpha": 0.3}],
    "Elu": [{"alpha": 0.7}],
    "HardSigmoid": [{"alpha": 0.3, "beta": 0.4}],
    "Gelu": [{"approximate": "tanh"}],
    "Selu": [{"alpha": 1.5, "gamma": 1.25}],
    "Celu": [{"alpha": 0.5}],
}


@pytest.mark.parametrize(("op", "opset"), [(op, v) for op, versions in SIMPLE.items() for v in versions])
def test_functions_agree_with_onnxruntime(op, opset, rng):
    x = rng.standard_normal((3, 17)).astype(np.float32) * 3
    x = np.abs(x) + np.float32(0.01) if op in ("Log", "Sqrt", "Reciprocal") else x
    for more in ({}, *PARAMETERS.get(op, [])):
        agree(op, [x], opset=opset, **more)


def test_not_agrees_with_onnxruntime():
    agree("Not", [np.array([True, False])], opset=13)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16])
@pytest.mark.parametrize("name", ["abs", "neg", "sin", "cos", "tanh", "sqrt", "floor", "ceil", "round", "exp"])
def test_zeros_have_the_sign_that_the_function_gives_them(name, dtype, device):
    zeros = np.resize(np.array([-0.0, 0.0], dtype.numpy), (3, 37))
    topology = clgraph.Topology()
    x = topology.input("x", zeros.shape, dtype)
    topology.output("y", topology.add("y", Activation(name), x))
    with clgraph.compile(topology, device) as model:
        found = model.run({"x": zeros})["y"]
    (wanted,) = Activation(name).reference(zeros)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def _swish_argument(v, a):
    return np.abs(a * v)


def _gelu_tanh_scale(v):
    argument = np.abs(2 * np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))
    # 1 + tanh(t) near -1 is off by 2^-53 in the reference itself.
    return np.abs(FUNCTIONS["gelu_tanh"](v, 0, 0)) * (8 + 3 * argument) + np.abs(v) * 2.0**-29


# In units of 2^-24 of the scale. OpenCL's table (full profile) counts ulps of 2^-23: 3 for exp, log and sqrt, 2.5 for a
# division, 4 for sin and cos; the others are derived where they are written, in post_apply.clh.
BOUNDS = {
    "linear": (1, None),
    "leaky_relu": (1, None),
    "elu": (8 + 1, None),
    # A division's 5 units reach the result, and those of the product.
    "celu": (8 + 5 + 1, None),
    "sigmoid": (8, None),
    "tanh": (6, lambda v: 1),
    "hard_sigmoid": (1, None),
    "hard_swish": (2, None),
    "swish": (1, lambda v: np.abs(FUNCTIONS["swish"](v, 0.5, 0)) * (8 + 3 * _swish_argument(v, 0.5))),
    "gelu": (6, np.abs),
    "gelu_tanh": (1, _gelu_tanh_scale),
    "exp": (8, None),
    "log": (6, None),
    "sqrt": (6, None),
    "reciprocal": (5, None),
    "square": (1, None),
    "erf": (6, lambda v: 1),
    "softplus": (8, lambda v: np.logaddexp(v, 0) + 0.25),
    "softsign": (1 + 5, None),
    "sin": (8, None),
    "cos": (8, None),
    # Two products; a sum and a product; a division.
    "gated_steps": (2, None),
    "scaled_sum": (2, None),
    "divided": (5, None),
    # And 2e-36, which counts where v is large and the exponential next to nothing.
    "mish": (8, lambda v: np.abs(FUNCTIONS["mish"](v, 0, 0)) + 2e-36 * 2**24 / 8),
}
ARGUMENTS = {"linear": (0.5, -0.25), "clip": (-0.5, 0.75), "hard_sigmoid": (0.25, 0.5), "hard_swish": (0.25, 0.5)}


@pytest.mark.opencl
@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f != "not"])
def test_every_function_is_computed_within_its_bound(function, engine):
    alpha, beta = ARGUMENTS.get(function, (0.5, 0.0))
    ulps, scale = BOUNDS.get(function, (0, None))
    check_op(engine, Activation(function, alpha, beta), (3, 5, 7, 6), ulps=ulps, scale=scale)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
def test_a_threshold_is_passed_by_what_is_above_it(dtype, engine):
    beside = [np.nextafter(dtype.numpy.type(0.5), dtype.numpy.type(end)) for end in (0, 1)]
    numbers = np.array([0.5, *beside, -0.5, np.inf, -np.inf, np.nan, 0.0])
    draw = {0: lambda rng, shape: rng.choice(numbers, shape)}
    check_op(engine, Activation("thresholded_relu", 0.5), (3, 35), dtype=dtype, draw=draw, families=["normal"])


@pytest.mark.opencl
@pytest.mark.parametrize("shape", [(), (1,), (257,), (2, 3, 4, 5, 6), (3, 0, 2)])
def test_any_rank_is_served(shape, engine):
    check_op(engine, Activation("relu"), shape)


@pytest.mark.opencl
def test_halves_are_computed_in_float(engine):
    check_op(engine, Activation("sigmoid"), (3, 37), ulps=8, dtype=DType.F16)


@pytest.mark.opencl
@pytest.mark.parametrize("function", ["relu", "clip", "neg", "abs", "square", "sign", "round"])
@pytest.mark.parametrize("dtype", [DType.I64, DType.I32, DType.I8])
def test_integers_stay_integers(function, dtype, engine):
    draw = {0: lambda rng, shape: rng.integers(-11, 12, shape)}
    check_op(engine, Activation(function, -3, 5), (4, 9), dtype=dtype, draw=draw)


@pytest.mark.opencl
def test_not_is_computed(engine):
    check_op(engine, Activation("not"), (4, 9), dtype=DType.BOOL)


@pytest.mark.opencl
def test_fused_operations_are_applied_in_order(engine):
    # relu is exact, then a product and a sum: one rounding each, of |x p| and of |x p| + |r|.
    fused = [(Eltwise("mul"), [(5, 1)], 0), (Activation("linear", 2.0, 1.0), [], 0), (Eltwise("sub"), [(2, 5, 7)], 1)]
    scale = lambda x, p, r: 2 * np.abs(x * p) + 1 + np.abs(r)  # noqa: E731
    check_op(engine, Activation("relu"), (2, 5, 7), ulps=3, scale=scale, fused=fused)
