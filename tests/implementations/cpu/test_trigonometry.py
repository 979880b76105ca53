"""Trigonometric and hyperbolic functions by runs: against NumPy's, of floats and of doubles, near and far."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.trigonometry import FUNCTIONS, Trigonometric
from tests.support.check_op import check_op
from tests.support.graphs import FLOAT, graph, model

pytestmark = pytest.mark.opencl

HALF = TensorProto.FLOAT16

EDGES = (
    *(0.0, 5e-324, 1e-310, 1e-17, 1e-8, 0.3465, 0.4375, 0.5, 0.6875, 0.7853981633974483, 1 - 2.0**-53, 1.0),
    *(1 + 2.0**-52, 1.1875, 1.5707963267948966, 2.4375, 21.9, 22.1, 709.7, 710.4, 711.0, 2.0**28, 2.0**28 + 1),
    *(355.0, 1e5, 2.0**20, 2.0**20 + 1, 1e22, 1.7e308, np.inf, np.nan),
)
"""Where a function goes over into another branch, and multiples of pi / 2; of both signs."""
FAMILIES = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "wide": lambda rng, shape: rng.standard_normal(shape) * 1000,
    "far": lambda rng, shape: rng.uniform(-1e6, 1e6, shape),
    "every exponent": lambda rng, shape: np.exp2(rng.uniform(-1074, 1023, shape)) * rng.choice([-1, 1], shape),
    "zeros": lambda rng, shape: np.zeros(shape),
    "edges": lambda rng, shape: np.resize(np.array([*EDGES, *(-v for v in EDGES)]), shape),
    "near 1": lambda rng, shape: 1 + np.exp2(rng.uniform(-53, 3, shape)),
    "below 1": lambda rng, shape: rng.uniform(-1, 1, shape),
}
BOUNDS = {"sin": 4, "cos": 4, "tan": 9, "asin": 7, "acos": 7, "atan": 7}
"""In u = 2^-53, of double_angles.clh; 10 of the others. Beyond 2^20 OpenCL's 4 and 5 ulp are 8 and 10 u."""


def _checked(engine, primitive, dtype, name):
    function = {**FUNCTIONS, "sin": np.sin, "cos": np.cos}[primitive.function]
    # NumPy's functions are within 2 ulps, 4 u; the unit of doubles is 2 u. Floats are rounded once, to 2^-24,
    # but for float_angles.clh.
    near, far = BOUNDS.get(primitive.function, 10), {"tan": 10, "sin": 8, "cos": 8}.get(primitive.function, 10)
    double = dtype == DType.F64

    def ulps(v):
        if double:
            return (np.where(np.abs(v) <= 2.0**20, near, max(near, far)) + 4) / 2
        return {"acos": 8, "atan": 7}.get(primitive.function, 1 + 2.0**-20)

    # Results that are no normal numbers are rounded to the least one.
    least = 2.0**-1021 if double else 2.0**-125
    with np.errstate(all="ignore"):
        check_op(
            engine, primitive, (3, 1100), dtype=dtype, families=FAMILIES, ulps=ulps,
            scale=lambda v: np.maximum(np.nan_to_num(np.abs(function(v))), least), only=[name],
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_are_within_their_bounds(engine, function, dtype):
    _checked(engine, Trigonometric(function), dtype, "trigonometry.elements")


@pytest.mark.parametrize("function", ["sin", "cos"])
def test_sine_and_cosine_of_doubles_are_within_their_bounds(engine, function):
    _checked(engine, Activation(function), DType.F64, "activation.elements")


@pytest.mark.parametrize("arc", ["Acos", "Atan"])
def test_arcs_of_halves_are_those_of_floats_rounded(engine, arc):
    def halves(*nodes):
        return model(graph(list(nodes), [("x", HALF, [1 << 16])], [("y", HALF, None)]))

    wide = [
        helper.make_node("Cast", ["x"], ["a"], to=FLOAT),
        helper.make_node(arc, ["a"], ["b"]),
        helper.make_node("Cast", ["b"], ["y"], to=HALF),
    ]
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    found = []
    for source in (halves(helper.make_node(arc, ["x"], ["y"])), halves(*wide)):
        with clgraph.compile(source, threads=1) as compiled:
            found.append((len(list(compiled.program)), compiled.run({"x": x})["y"].view(np.uint16)))
    (alone, narrow), (apart, rounded) = found
    assert (alone, apart) == (1, 3)
    np.testing.assert_array_equal(narrow, rounded)
