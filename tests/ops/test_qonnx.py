"""QONNX's operators beside qonnx's own executor."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes

import clgraph
from clgraph.errors import UnsupportedError
from clgraph.graph.importing import QONNX

GENERAL, BREVITAS = QONNX
F = np.float32
MODES = ["ROUND", "HALF_EVEN", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"]


def model(op_type, x, *constants, domain=GENERAL, version=1, **attributes):
    """Return a model of one node, *constants* being what it reads beside x."""
    names = [f"c{i}" for i in range(len(constants))]
    node = helper.make_node(op_type, ["x", *names], ["y"], domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
        [numpy_helper.from_array(np.asarray(c, F), n) for n, c in zip(names, constants, strict=True)],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(domain, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def both(op_type, x, *constants, **more):
    """Return what clgraph computes of one node, and qonnx."""
    made = model(op_type, x, *constants, **more)
    theirs = execute_onnx(ModelWrapper(made), {"x": x})["y"]
    return clgraph.compile(made)({"x": x}), theirs


def numbers(shape=(2, 3, 40), scale=0.25, seed=0):
    """Draw numbers on quarters of a step, so that halves are there and nothing is rounded but what is to be."""
    rng = np.random.default_rng(seed)
    return (rng.integers(-80, 80, shape) * (scale / 4)).astype(F)


@pytest.mark.opencl
@pytest.mark.parametrize("mode", [*MODES, "round"])
@pytest.mark.parametrize("op_type", ["Quant", "IntQuant"])
def test_integers_are_rounded_as_qonnx_rounds(op_type, mode):
    for bits, signed, narrow in (
        (8, 1, 0),
        (8, 1, 1),
        (4, 1, 1),
        (4, 0, 0),
        (3, 0, 1),
        (2, 1, 0),
        (1, 0, 0),
        (12, 1, 0),
    ):
        got, want = both(op_type, numbers(), 0.25, 0, bits, signed=signed, narrow=narrow, rounding_mode=mode)
        np.testing.assert_array_equal(got, want, f"{bits} bits, {signed}, {narrow}")


@pytest.mark.opencl
def test_zero_points_and_scales_of_channels_and_one_signed_bit_are_qonnxs():
    x = numbers()
    scales = np.array([0.25, 0.5, 1], F).reshape(1, 3, 1)
    for parameters in (
        (0.25, 2, 8),
        (0.25, 0.5, 4),
        (scales, 0, 4),
        (scales, scales * 8, 6),
        (0.5, 0, 1),
        (scales, 1, 1),
    ):
        got, want = both("Quant", x, *parameters, signed=1, narrow=0, domain=BREVITAS)
        np.testing.assert_array_equal(got, want, str(parameters))
    for scale in (0.5, scales):
        np.testing.assert_array_equal(*both("BipolarQuant", x, scale))


@pytest.mark.opencl
@pytest.mark.parametrize("mode", MODES)
def test_last_bits_are_cut_off_as_in_both_versions_of_qonnx(mode):
    x = np.rint(numbers() * 4) / F(4)
    np.testing.assert_array_equal(*both("Trunc", x, 0.25, 0, 8, 5, rounding_mode=mode))
    np.testing.assert_array_equal(*both("Trunc", x, 0.25, 0, 8, 2.0, 4, version=2, rounding_mode=mode, narrow=1))
    np.testing.assert_array_equal(
        *both("Trunc", x, 0.25, 8, 8, 1.0, 5, version=2, rounding_mode=mode, signed=0, narrow=0)
    )


@pytest.mark.opencl
@pytest.mark.parametrize(("exponent", "mantissa", "bias", "largest"), [(4, 3, 7, 448), (5, 2, 15, 57344), (2, 1, 1, 6)])
def test_floats_of_few_bits_are_qonnxs(exponent, mantissa, bias, largest):
    """Their logarithm is of float32, which takes a number just below a power of two for it: rounding makes it so."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal(500) * 4.0 ** rng.integers(-12, 9, 500), [0, -0.0, 1e30, 448, -449, 1.75]])
    told = {"has_inf": 0, "has_nan": 0, "has_subnormal": 0, "saturation": 1}
    for mode in ("ROUND", "FLOOR", "CEIL"):
        got, want = both("FloatQuant", x.astype(F), 0.5, exponent, mantissa, bias, largest, rounding_mode=mode, **told)
        np.testing.assert_array_equal(got, want, mode)


def network() -> onnx.ModelProto:
    """Return two convolutions as Brevitas writes them: weights of 4 bits by channel, activations of 8."""
    rng = np.random.default_rng(0)
    data = {"bits8": np.float32(8), "bits4": np.float32(4), "zero": np.float32(0), "by": np.float32(0.05)}
    nodes = [helper.make_node("Quant", ["x", "by", "zero", "bits8"], ["v0"], domain=BREVITAS, signed=1, narrow=0)]
    for i, (inputs, outputs) in enumerate([(16, 32), (32, 16)]):
        data[f"w{i}"] = (rng.standard_normal((outputs, inputs, 3, 3)) * 0.1).astype(F)
        data[f"s{i}"] = rng.uniform(0.02, 0.05, (outputs, 1, 1, 1)).astype(F)
        nodes += [
            helper.make_node(
                "Quant", [f"w{i}", f"s{i}", "zero", "bits4"], [f"q{i}"], domain=BREVITAS, signed=1, narrow=1
            ),
            helper.make_node("Conv", [f"v{i}", f"q{i}"], [f"c{i}"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", [f"c{i}"], [f"r{i}"]),
            helper.make_node(
                "Quant", [f"r{i}", "by", "zero", "bits8"], [f"v{i + 1}"], domain=BREVITAS, signed=0, narrow=0
            ),
        ]
    places = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 16, 20, 20)) for n in ("x", "v2")]
    constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in data.items()]
    graph = helper.make_graph(nodes, "g", places[:1], places[1:], constants)
    # As older exporters write it: without the domain among the operator sets.
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.opencl
def test_a_network_of_brevitas_runs_as_with_qonnx_and_its_products_from_bytes_where_the_device_multiplies_them():
    made, x = network(), np.random.default_rng(1).standard_normal((1, 16, 20, 20)).astype(F)
    compiled = clgraph.compile(made)
    theirs = execute_onnx(ModelWrapper(made).transform(InferShapes()), {"x": x})["v2"]
    steps = np.abs(compiled({"x": x}) - theirs) / F(0.05)
    # Sums near a half fall on either side: within 2^-24 of 144 products, of some ten thousand results.
    assert steps.max() < 1.5
    assert (steps > 0.5).mean() < 1e-3
    text = str(compiled.explain())
    assert "quantized_convolution" in text or "vnni" not in compiled.device.features


@pytest.mark.parametrize(
    ("op_type", "constants", "attributes", "what"),
    [
        ("Quant", (0.5, 0, [8, 8]), {}, r"bit width \(input 3\)"),
        ("Quant", (0.5, 0, 8), {"rounding_mode": "NEAREST"}, "rounding_mode 'NEAREST' is not one of ROUND"),
        ("FloatQuant", (0.5, 4, 3, 7, 448), {"saturation": 0}, "infinity or NaN"),
    ],
)
def test_what_is_not_read_is_refused_by_name(op_type, constants, attributes, what):
    with pytest.raises(UnsupportedError, match=what):
        clgraph.compile(model(op_type, numbers(), *constants, **attributes))
