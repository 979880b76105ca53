"""What ONNX Runtime's quantiser writes of small networks, in each of its ways: within a step of ONNX Runtime."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import clgraph
from tests.support.onnx_case import onnxruntime_outputs


def node(op_type, inputs, output, **attributes):
    return helper.make_node(op_type, inputs.split(), [output], name=output, **attributes)


NETS = {
    "convolutions": (
        [
            node("Conv", "x w0 b0", "a", pads=[1, 1, 1, 1]),
            node("Relu", "a", "b"),
            node("Conv", "b w1", "c", pads=[1, 1, 1, 1], group=8),
            node("Sigmoid", "c", "d"),
            node("Add", "b d", "e"),
            node("Conv", "e w2 b2", "f", strides=[2, 2]),
            node("LeakyRelu", "f", "g"),
            node("MaxPool", "g", "h", kernel_shape=[2, 2], strides=[2, 2]),
            node("GlobalAveragePool", "h", "i"),
            node("Flatten", "i", "j"),
            node("Gemm", "j w3 b3", "y"),
        ],
        {
            "w0": (8, 3, 3, 3),
            "b0": (8,),
            "w1": (8, 1, 3, 3),
            "w2": (16, 8, 1, 1),
            "b2": (16,),
            "w3": (16, 9),
            "b3": (9,),
        },
        (2, 3, 12, 12),
    ),
    "attention": (
        [
            node("MatMul", "x w0", "q"),
            node("Add", "q b0", "a"),
            node("MatMul", "x w1", "k"),
            node("MatMul", "x w2", "v"),
            node("Transpose", "k", "t", perm=[0, 2, 1]),
            node("MatMul", "a t", "s"),
            node("Softmax", "s", "p", axis=-1),
            node("MatMul", "p v", "o"),
            node("Tanh", "o", "n"),
            node("Concat", "n x", "y", axis=2),
        ],
        {"w0": (16, 16), "b0": (16,), "w1": (16, 16), "w2": (16, 16)},
        (2, 5, 16),
    ),
}


class Draws(CalibrationDataReader):
    """Eight inputs of ordinary numbers."""

    def __init__(self, shape, rng):
        self.left = iter([{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(8)])

    def get_next(self):
        return next(self.left, None)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(params=NETS)
def net(request, rng, tmp_path, monkeypatch):
    """A network's file, and the shape of its input."""
    monkeypatch.setattr(logging.getLogger(), "disabled", True)
    nodes, weights, shape = NETS[request.param]
    graph = helper.make_graph(
        nodes,
        request.param,
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [
            numpy_helper.from_array((rng.standard_normal(s) / np.sqrt(np.prod(s[1:]) or 1)).astype(np.float32), n)
            for n, s in weights.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "floats.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path, shape


def agrees_within_a_step(path, shape, rng, *, optimised=True):
    """Assert it of the quantised model at *path*, which ONNX Runtime computes with its fused operators if *optimised*.

    A value beside a half may go to either neighbour, and the weights are drawn so that no layer makes steps larger.
    """
    x = {"x": rng.standard_normal(shape).astype(np.float32)}
    (want,) = onnxruntime_outputs(onnx.load(path), x, optimised=optimised)
    got = clgraph.compile(path).run(x)["y"]
    assert np.abs(got - want).max() <= (want.max() - want.min()) / 255


I8, U8, I16, U16 = QuantType.QInt8, QuantType.QUInt8, QuantType.QInt16, QuantType.QUInt16
OPTIONS = {
    "default": {},
    "symmetric": {"extra_options": {"ActivationSymmetric": True, "WeightSymmetric": True}},
    "by channel": {"per_channel": True},
    "bytes": {"activation_type": U8, "weight_type": U8},
    "mixed": {"activation_type": U8, "weight_type": I8},
    "16 bits": {"activation_type": I16, "weight_type": I8},
    "unsigned 16 bits": {"activation_type": U16, "weight_type": I8},
    "weights in pairs": {"extra_options": {"AddQDQPairToWeight": True, "DedicatedQDQPair": True}},
    "floats for a bias": {"extra_options": {"QuantizeBias": False}},
    "operators of ONNX Runtime": {"extra_options": {"UseQDQContribOps": True}},
    "integer operators": {"quant_format": QuantFormat.QOperator},
    "integer operators by channel": {"quant_format": QuantFormat.QOperator, "per_channel": True},
    "integer operators of bytes": {"quant_format": QuantFormat.QOperator, "activation_type": U8, "weight_type": U8},
}


@pytest.mark.opencl
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_statically_quantised_networks_are_computed(net, options, rng):
    path, shape = net
    made = path.with_name("integers.onnx")
    quantize_static(path, made, Draws(shape, rng), **options)
    # ONNX Runtime's optimiser has weights of 8 bits beside activations of 16 multiplied with these rounded to 8.
    agrees_within_a_step(made, shape, rng, optimised=options.get("activation_type") not in (I16, U16))


@pytest.mark.opencl
@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("kind", [I8, U8], ids=str)
def test_dynamically_quantised_networks_are_computed(net, kind, by_channel, rng):
    path, shape = net
    made = path.with_name("integers.onnx")
    quantize_dynamic(path, made, weight_type=kind, per_channel=by_channel)
    agrees_within_a_step(made, shape, rng)
