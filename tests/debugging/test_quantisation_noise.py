from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from clgraph.debugging.counterparts import counterparts
from clgraph.debugging.quantisation_noise import ModelNoise, measure_noise, noise
from clgraph.engines.opening import options_of
from clgraph.errors import InputError, OptionError
from clgraph.frontend.onnx_loader import load_onnx

SHAPE = (1, 8, 6, 6)


class Once(CalibrationDataReader):
    """The feeds of one run."""

    def __init__(self, feeds) -> None:
        self.left = [feeds]

    def get_next(self):
        return self.left.pop() if self.left else None


@pytest.fixture(scope="module")
def feeds():
    return {"x": np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)}


@pytest.fixture(scope="module")
def models(tmp_path_factory, feeds):
    """Return a network whose second convolution makes much of a small input by large weights; and it quantised."""
    folder, rng = tmp_path_factory.mktemp("noise"), np.random.default_rng(4)
    weights = {f"w{i}": rng.standard_normal((8, 8, 1, 1)) / 3 for i in range(3)}
    weights["w1"][:, 0] *= 100
    weights["w0"][0] /= 100
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], "first"),
        helper.make_node("Relu", ["c0"], ["r0"], "relu"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], "uneven"),
        helper.make_node("MaxPool", ["c1"], ["p"], "pool", kernel_shape=[2, 2]),
        helper.make_node("Conv", ["p", "w2"], ["y"], "last"),
    ]
    graph = helper.make_graph(
        nodes,
        "uneven",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 8, 3, 3))],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()],
    )
    source = folder / "float.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    forms = {"static": {}, "channels": {"per_channel": True}, "operators": {"quant_format": QuantFormat.QOperator}}
    for form, options in forms.items():
        options = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8} | options
        quantize_static(source, folder / f"{form}.onnx", Once(feeds), **options)
    quantize_dynamic(source, folder / "dynamic.onnx", weight_type=QuantType.QInt8)
    return {name: load_onnx(folder / f"{name}.onnx") for name in ("float", *forms, "dynamic")}


def compared(models, form, feeds) -> ModelNoise:
    return measure_noise(models[form], models["float"], feeds, options_of("pocl"))


def test_noise_is_relative_to_the_tensor() -> None:
    found = noise(np.array([3.0, 4.0, 0.5]), np.array([3.0, 4.0, 0.0]))
    assert found.rms == pytest.approx(0.5 / 5)
    assert found.worst == pytest.approx(0.5 / 4)
    assert found.decibels == pytest.approx(20)
    assert noise(np.array([1.0, np.nan]), np.array([1.0, np.nan])).decibels == math.inf
    assert noise(np.array([1.0, np.nan]), np.array([1.0, 2.0])).rms == math.inf


@pytest.mark.parametrize("form", ["static", "operators"])
def test_tensors_are_paired_by_names_and_a_relu_that_is_gone_with_what_is_in_front(models, form) -> None:
    source = models["float"].build({})
    pairs = {v.name: c for v, c in counterparts(models[form].build({}), source).items()}
    # The quantiser has left the Relu to the range of c0, which is that of r0.
    assert set(pairs) == {"x", "r0", "c1", "p", "y"}
    assert all(c.dequantize is not None for c in pairs.values())


@pytest.mark.opencl
@pytest.mark.parametrize("form", ["static", "operators"])
def test_the_layer_is_found_whose_weights_lose_most(models, form, feeds) -> None:
    found = compared(models, form, feeds)
    layers = {layer.layer: layer for layer in found.layers}
    assert list(layers) == ["x", "relu", "uneven", "pool", "last"]
    # All weights are rounded by the largest, which are 100 times those that most of the result is made of.
    assert layers["uneven"].own.rms >= 10 * layers["uneven"].rounding
    assert found.verdict().startswith("'uneven' adds most")
    assert found.verdict().endswith("in its weights or inputs")
    # Inputs and maxima are rounded and nothing else; what stands behind the loss inherits it.
    assert layers["x"].total == layers["x"].own
    assert layers["x"].own.rms == layers["x"].rounding
    assert layers["pool"].own.rms == layers["pool"].rounding
    assert layers["last"].total.rms >= 10 * layers["last"].own.rms
    assert all(layer.beyond == 0 for layer in found.layers)
    (output,) = found.outputs
    # Device and references differ by single steps at most.
    assert output.device.rms == pytest.approx(output.references.rms, rel=0.1)
    assert layers["last"].snr == pytest.approx(output.snr, abs=1)


@pytest.mark.opencl
def test_what_is_beyond_the_range_is_told_from_what_is_rounded(models, feeds) -> None:
    found = compared(models, "channels", {"x": 4 * feeds["x"]})
    layers = {layer.layer: layer for layer in found.layers}
    assert layers["x"].beyond > 0.3
    assert layers["x"].own.rms == layers["x"].rounding
    assert "beyond the range" in found.verdict()


@pytest.mark.opencl
def test_a_dynamic_model_rounds_no_result(models, feeds) -> None:
    found = compared(models, "dynamic", feeds)
    assert {layer.layer: layer.rounding for layer in found.layers} == dict.fromkeys(
        ("first", "relu", "uneven", "pool", "last"), 0.0
    )
    exact = [layer.layer for layer in found.layers if not layer.own.rms]
    assert exact == ["relu", "pool"]


def test_models_that_are_no_two_forms_of_one_are_refused(models, feeds) -> None:
    options = options_of("null")
    with pytest.raises(OptionError, match="runs nothing"):
        measure_noise(models["static"], models["float"], feeds, options)
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["other"])],
        "other",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("other", onnx.TensorProto.FLOAT, SHAPE)],
    )
    with pytest.raises(OptionError, match="no tensor in common"):
        measure_noise(models["static"], load_onnx(helper.make_model(graph)), feeds, options)
    graph.input[0].name = graph.node[0].input[0] = "z"
    with pytest.raises(InputError, match="reads 'z', and the other one 'x'"):
        measure_noise(models["static"], load_onnx(helper.make_model(graph)), feeds, options)
