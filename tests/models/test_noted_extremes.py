"""Ranges that dynamic quantisation asks for, noted by what makes the tensor: the bits that a pass over it finds."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

import clgraph
from tests.support.features import needs
from tests.support.of_a_kind import on_a_cpu

NOTED = {"noted_extreme"}


def _model(nodes, shape, **constants):
    """Return a model whose last node makes ``y``, which is rounded dynamically."""
    made = [*nodes, helper.make_node("DynamicQuantizeLinear", ["y"], ["q", "scale", "zero"])]
    results = [helper.make_tensor_value_info(n, t, None) for n, t in (("q", 2), ("scale", 1), ("zero", 2))]
    held = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(made, "g", [helper.make_tensor_value_info("x", 1, shape)], results, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _weights(*shape):
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def _convolution(channels, outputs, kernel, **more):
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[kernel // 2] * 4, **more)
    return [node], {"w": _weights(outputs, channels // more.get("group", 1), kernel, kernel)}


def _integers(channels, outputs, kernel, group=1, behind=()):
    """Return a product of integers behind a rounding of x, scaled, with a bias and what is *behind*, or bounds."""
    w = np.random.default_rng(0).integers(-127, 128, (outputs, channels // group, kernel, kernel)).astype(np.int8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]),
        helper.make_node("ConvInteger", ["xq", "w", "xz"], ["sums"], pads=[kernel // 2] * 4, group=group),
        helper.make_node("Cast", ["sums"], ["whole"], to=1),
        helper.make_node("Mul", ["whole", "xs"], ["scaled"]),
        helper.make_node("Add", ["scaled", "bias"], ["moved"]),
        helper.make_node(*(behind or ("HardSwish" if kernel == 1 else "Relu", ["moved"], ["y"]))),
    ]
    return nodes, {"w": w, "bias": _weights(1, outputs, 1, 1)}


def _product():
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]),
        helper.make_node("MatMulInteger", ["xq", "w", "xz"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["whole"], to=1),
        helper.make_node("Mul", ["whole", "xs"], ["y"]),
    ]
    return nodes, {"w": np.random.default_rng(0).integers(-127, 128, (96, 200)).astype(np.int8)}


def _concat(*channels):
    """Return convolutions that are joined, of weights above 0, below 0 and of both signs."""
    size = len(channels)
    nodes = [helper.make_node("Conv", ["x", f"w{i}"], [f"c{i}"], pads=[1] * 4) for i in range(size)]
    held = {f"w{i}": _weights(n, 24, 3, 3) for i, n in enumerate(channels)}
    held["w0"] = np.abs(held["w0"])
    held["w1"] = -(held["w1"] ** 2)
    return [*nodes, helper.make_node("Concat", [f"c{i}" for i in range(size)], ["y"], axis=1)], held


CASES = {
    "pixels": (_convolution(16, 40, 1), (2, 16, 33, 29)),
    "windows": (_convolution(32, 32, 3), (1, 32, 71, 75)),
    "windows of few channels": (_convolution(3, 20, 5, strides=[2, 2]), (1, 3, 257, 255)),
    "channels alone": (_convolution(24, 24, 3, group=24), (1, 24, 160, 161)),
    "integers": (_integers(16, 40, 1), (1, 16, 33, 50)),
    "integers of windows": (_integers(32, 24, 3), (2, 32, 60, 57)),
    "integers of channels alone": (_integers(32, 32, 3, group=32), (1, 32, 40, 41)),
    "integers of rows": (_product(), (1, 630, 96)),
    "a sum": (
        (
            [
                helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
                helper.make_node("Resize", ["c", "", "scales"], ["r"], mode="nearest"),
                helper.make_node("Add", ["r", "b"], ["y"]),
            ],
            {"w": _weights(24, 24, 3, 3), "scales": np.array([1, 1, 2, 2], np.float32), "b": _weights(1, 24, 1, 1)},
        ),
        (1, 24, 23, 22),
    ),
    "a concat that copies": (_concat(24, 24, 40), (1, 24, 57, 60)),
    "a concat in place": (_concat(16, 32, 16), (1, 24, 57, 60)),
}


@pytest.mark.opencl
@pytest.mark.parametrize("case", CASES)
def test_noted_extremes_are_those_that_a_pass_finds(device, engine, case):
    on_a_cpu(device)
    needs(engine, *["byte_pairs"] * case.startswith("integers"))
    (nodes, constants), shape = CASES[case]
    model = _model(nodes, shape, **constants)
    noted = clgraph.compile(model, device=device, config={"disable_passes": ["compute_twice"]})
    plain = clgraph.compile(model, device=device, config={"disable_passes": ["note_extremes", "compute_twice"]})
    assert {n.primitive.kind for n in noted.program} >= NOTED
    assert not NOTED & {n.primitive.kind for n in plain.program}
    _compare(noted, plain, shape)


TWICE = {
    "pixels": (_integers(16, 96, 1, behind=("Relu", ["moved"], ["y"])), (2, 16, 91, 89)),
    "pixels whose outputs fill no vector": (
        _integers(24, 140, 1, behind=("Identity", ["moved"], ["y"])),
        (1, 24, 112, 103),
    ),
    "windows of channels alone": (_integers(140, 140, 3, 140, ("Clip", ["moved", "", "six"], ["y"])), (1, 140, 99, 99)),
}


@pytest.mark.opencl
@pytest.mark.parametrize("case", TWICE)
def test_convolutions_that_are_computed_twice_have_the_bits_of_floats_that_are_rounded(device, engine, case):
    on_a_cpu(device)
    needs(engine, "byte_pairs", "vnni")
    if engine.info.simd < 16:
        pytest.skip("it takes longer than writing floats with registers of 8")
    (nodes, constants), shape = TWICE[case]
    model = _model(nodes, shape, six=np.float32(6), **constants)
    twice = clgraph.compile(model, device=device)
    once = clgraph.compile(model, device=device, config={"disable_passes": ["compute_twice"]})
    kinds = {n.primitive.kind for n in twice.program}
    assert "sum_extremes" in kinds
    assert not kinds & NOTED
    _compare(twice, once, shape)


def _compare(noted, plain, shape):
    """Assert that two models have the same results, whatever a run before has left."""
    rng = np.random.default_rng(1)
    # What a run has noted is not a part of the next: the second one's range is narrower.
    for scale, odd in ((4.0, None), (0.25, None), (1.0, np.nan), (1.0, np.inf), (1.0, None)):
        x = rng.normal(0.1, scale, shape).astype(np.float32)
        if odd is not None:
            x.flat[x.size // 3] = odd
        got, want = noted.run({"x": x}), plain.run({"x": x})
        for name in ("scale", "zero", "q"):
            np.testing.assert_array_equal(got[name], want[name], f"{name} of {scale}, {odd}")
