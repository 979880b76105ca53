"""Products of dynamically quantised values from their bytes: the bits that ONNX Runtime makes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from tests.support.onnx_case import onnxruntime_outputs
from tests.support.winograd import ROUNDINGS, winograd


def network(product, x, y, w, zero, bias=None, **attributes):
    """Return DynamicQuantizeLinear, a product of integers, its sums as floats in units of x's scale, and a bias."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node(product, ["q", "w", "zero", "w_zero"], ["sums"], "product", **attributes),
        helper.make_node("Cast", ["sums"], ["whole"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["whole", "scale"], ["y" if bias is None else "scaled"]),
    ]
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(zero, "w_zero")]
    if bias is not None:
        nodes.append(helper.make_node("Add", ["scaled", "bias"], ["y"]))
        constants.append(numpy_helper.from_array(bias, "bias"))
    graph = helper.make_graph(
        nodes,
        "dynamic",
        [helper.make_tensor_value_info("x", 1, x)],
        [helper.make_tensor_value_info("y", 1, y)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.opencl
def test_products_of_computed_scales_have_the_bits_of_onnxruntime(device, engine):
    vnni = "vnni" in engine.info.features
    rng = np.random.default_rng(0)

    def weights(*shape):
        return rng.integers(-128, 128, shape).astype(np.int8)

    none = np.int8(0)
    # Sums of 3072 products are several of floats; a convolution's pads are the zero point that the network computes.
    cases = {
        "matrices": (network("MatMulInteger", (2, 64, 256), None, weights(256, 512), none), (2, 64, 256)),
        "long sums": (network("MatMulInteger", (64, 3072), None, weights(3072, 64), none), (64, 3072)),
        "sums of two": (network("MatMulInteger", (64, 1200), None, weights(1200, 64), none), (64, 1200)),
        "windows": (
            network("ConvInteger", (1, 64, 32, 32), None, weights(64, 64, 3, 3), none, pads=[1, 1, 1, 1]),
            (1, 64, 32, 32),
        ),
        "windows of outputs that fill no vector": (
            network("ConvInteger", (1, 96, 20, 20), None, weights(24, 96, 3, 3), none, pads=[1, 1, 1, 1]),
            (1, 96, 20, 20),
        ),
        "pixels with a bias": (
            network(
                "ConvInteger",
                (1, 64, 40, 40),
                None,
                weights(96, 64, 1, 1),
                none,
                rng.normal(size=(1, 96, 1, 1)).astype("f4"),
            ),
            (1, 64, 40, 40),
        ),
        "weights around 128": (
            network("MatMulInteger", (96, 256), None, weights(256, 512).view(np.uint8) ^ 128, np.uint8(128)),
            (96, 256),
        ),
        "unsigned weights": (
            network("MatMulInteger", (96, 256), None, weights(256, 512).view(np.uint8), np.uint8(117)),
            (96, 256),
        ),
        "unsigned weights with a zero point a column": (
            network("MatMulInteger", (96, 256), None, weights(256, 512).view(np.uint8), weights(512).view(np.uint8)),
            (96, 256),
        ),
        "unsigned pixels": (
            network(
                *("ConvInteger", (1, 64, 40, 40), None, weights(32, 64, 3, 3).view(np.uint8), np.uint8(117)),
                pads=[1] * 4,
                strides=[2, 2],
            ),
            (1, 64, 40, 40),
        ),
        "unsigned channels alone": (
            network(
                *("ConvInteger", (1, 64, 64, 64), None, weights(64, 1, 3, 3).view(np.uint8), np.uint8(139)),
                pads=[1] * 4,
                group=64,
            ),
            (1, 64, 64, 64),
        ),
        "weights beyond bytes": (
            network("MatMulInteger", (96, 256), None, weights(256, 512), np.int8(3)),
            (96, 256),
        ),
        "classes": (network("MatMulInteger", (1, 640), None, weights(640, 1000), none), (1, 640)),
        "channels alone": (
            network("ConvInteger", (1, 64, 64, 64), None, weights(64, 1, 3, 3), none, pads=[1] * 4, group=64),
            (1, 64, 64, 64),
        ),
    }
    for name, (model, shape) in cases.items():
        feeds = {"x": rng.normal(0.7, 1.0, shape).astype(np.float32)}
        compiled = clgraph.compile(model, device=device)
        (want,), (got,) = onnxruntime_outputs(model, feeds), compiled.run(feeds).values()
        kinds = {node.primitive.kind for node in compiled.program}
        if not vnni and name.startswith("windows"):
            scale = np.ptp(np.append(feeds["x"], 0)) / 255
            integers = numpy_helper.to_array(model.graph.initializer[0]).astype(np.float64)
            size = winograd(np.abs(np.rint(feeds["x"] / scale)) + 1, integers, ((1, 1), (1, 1)), magnitude=True) * scale
            # Floats may be transformed (the header's bound); and scaled, and added up where they are not.
            assert (np.abs(got - want) <= (shape[1] + ROUNDINGS[1] + 3) * 2.0**-24 * size).all(), name
            continue
        np.testing.assert_array_equal(got, want, name)
        assert not vnni or kinds & {"quantized_matmul", "quantized_convolution"}, name


@pytest.mark.opencl
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(("rows", "terms", "columns"), [(40, 256, 96), (3, 1200, 64), (1, 4096, 48)])
def test_products_of_bytes_that_a_model_is_fed_are_exact(rows, terms, columns, signed, device, engine):
    rng = np.random.default_rng(0)
    w = rng.integers(0, 256, (terms, columns)).astype(np.uint8)
    w_zero = rng.integers(0, 256, columns).astype(np.uint8)
    if signed:
        w, w_zero = w.view(np.int8), np.zeros(columns, np.int8)
    graph = helper.make_graph(
        [
            helper.make_node("MatMulInteger", ["q", "w", "zero", "w_zero"], ["whole"], "product"),
            helper.make_node("Cast", ["whole"], ["floats"], to=TensorProto.FLOAT),
        ],
        "fed",
        [helper.make_tensor_value_info(n, TensorProto.UINT8, s) for n, s in (("q", (rows, terms)), ("zero", (1,)))],
        [helper.make_tensor_value_info("floats", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(w_zero, "w_zero")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"q": rng.integers(0, 256, (rows, terms)).astype(np.uint8), "zero": np.array([141], np.uint8)}
    exact = (feeds["q"].astype(np.int64) - 141) @ (w.astype(np.int64) - w_zero)
    program = clgraph.compile(model, device=device)
    # Two sums, rounded to floats, and theirs: of 255 * 255 at most for each term.
    np.testing.assert_allclose(program.run(feeds)["floats"], exact, rtol=0, atol=3 * 2.0**-24 * terms * 2 * 255**2)
    if "vnni" in engine.info.features:
        assert "quantized_matmul" in {node.primitive.kind for node in program.program}
    graph.output[0].CopyFrom(helper.make_tensor_value_info("whole", TensorProto.INT32, None))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    np.testing.assert_array_equal(clgraph.compile(model, device=device).run(feeds)["whole"], exact)


@pytest.mark.opencl
def test_integers_are_exact_where_shifted_weights_add_up_to_more_than_floats_hold(device):
    rng = np.random.default_rng(0)
    w = np.where(rng.random((1000, 256)) < 0.01, rng.integers(221, 231, (1000, 256)), 20).astype(np.uint8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["q", "w", "", "w_zero"], ["whole"], "product")],
        "fed",
        [helper.make_tensor_value_info("q", TensorProto.UINT8, (64, 1000))],
        [helper.make_tensor_value_info("whole", TensorProto.INT32, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.uint8(20), "w_zero")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    q = rng.integers(250, 256, (64, 1000)).astype(np.uint8)
    exact = q.astype(np.int64) @ (w.astype(np.int64) - 20)
    np.testing.assert_array_equal(clgraph.compile(model, device=device).run({"q": q})["whole"], exact)
