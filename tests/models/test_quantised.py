"""Networks that ONNX Runtime's tools have quantised, against ONNX Runtime."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import clgraph
from tests.support.combinations import each_value
from tests.support.onnx_case import onnxruntime_outputs
from tests.support.zoo import ZOO


class Once(CalibrationDataReader):
    """The feeds of one run."""

    def __init__(self, feeds) -> None:
        self.left = [feeds]

    def get_next(self):
        return self.left.pop() if self.left else None


def residual():
    """Return a network of residual blocks, with pooling and a classifier, and feeds."""
    rng = np.random.default_rng(7)
    nodes, weights = [], {}

    def conv(x, name, channels, out, kernel, stride=1, relu=True):
        weights[f"{name}_w"] = rng.standard_normal((out, channels, kernel, kernel)) / np.sqrt(channels * kernel**2)
        weights[f"{name}_b"] = rng.standard_normal(out) / 4
        inputs = [x, f"{name}_w", f"{name}_b"]
        nodes.append(helper.make_node("Conv", inputs, [name], name, strides=[stride] * 2, pads=[kernel // 2] * 4))
        if relu:
            nodes.append(helper.make_node("Relu", [name], [f"{name}_r"], f"{name}_r"))
        return f"{name}_r" if relu else name

    x = conv("x", "stem", 3, 16, 7, 2)
    nodes.append(helper.make_node("MaxPool", [x], ["pool"], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4))
    x, channels = "pool", 16
    for i, (out, stride) in enumerate([(16, 1), (32, 2)]):
        y = conv(conv(x, f"a{i}", channels, out, 3, stride), f"b{i}", out, out, 3, relu=False)
        x = x if stride == 1 else conv(x, f"c{i}", channels, out, 1, stride, relu=False)
        nodes.append(helper.make_node("Add", [x, y], [f"add{i}"], f"add{i}"))
        nodes.append(helper.make_node("Relu", [f"add{i}"], [f"out{i}"], f"out{i}"))
        x, channels = f"out{i}", out
    nodes += [
        helper.make_node("GlobalAveragePool", [x], ["mean"], "mean"),
        helper.make_node("Flatten", ["mean"], ["f"]),
    ]
    weights["head_w"], weights["head_b"] = rng.standard_normal((10, 32)), rng.standard_normal(10)
    nodes.append(helper.make_node("Gemm", ["f", "head_w", "head_b"], ["y"], "head", transB=1))
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 48, 48))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 10))],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": rng.standard_normal((1, 3, 48, 48)).astype(np.float32)}


def quantised(name, form, folder):
    model, feeds = residual() if name == "residual" else ZOO[name].make()
    source, target = folder / "model.onnx", folder / "quantised.onnx"
    onnx.save(model, source)
    if form == "dynamic":
        quantize_dynamic(source, target, weight_type=QuantType.QInt8)
    else:
        types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(source, target, Once(feeds), quant_format=QuantFormat[form], per_channel=True, **types)
    return onnx.load(target), feeds


@pytest.mark.opencl
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["QDQ", "QOperator", "dynamic"])
@pytest.mark.parametrize("name", ["residual", "small_mobilenet_v2", "small_encoder"])
def test_a_quantised_network_agrees_with_onnxruntime(name, form, device, tmp_path):
    model, feeds = quantised(name, form, tmp_path)
    compiled = clgraph.compile(model, device=device, shapes={n: a.shape for n, a in feeds.items()})
    (want,), (got,) = onnxruntime_outputs(model, feeds), compiled.run(feeds).values()
    assert len(np.unique(want)) > 8
    # A sum beside a half may be rounded to either side: by one step of 8 bits, 1/255 of the range. Through layers of a
    # gain near 1 such differences add up as the roots of their numbers do.
    layers = sum(any(kind in node.op_type for kind in ("Conv", "MatMul", "Gemm", "Add")) for node in model.graph.node)
    np.testing.assert_allclose(got, want, rtol=0, atol=np.sqrt(layers) * np.ptp(want) / 255)


@pytest.mark.opencl
@pytest.mark.filterwarnings("ignore")
@each_value(form=["QDQ", "QOperator"], precision=["f32", "f16"])
def test_integers_give_what_onnxruntime_gives(form, precision, device, tmp_path):
    model, feeds = quantised("residual", form, tmp_path)
    names = [n.name for n in model.graph.node if n.op_type in ("Conv", "QLinearConv") and "stem" not in n.name]
    names = [name if form == "QDQ" else f"{name}/convolution1" for name in names]
    kernels = dict.fromkeys(names, "quantized_convolution.gpu_tiled")
    compiled = clgraph.compile(
        model,
        device=device,
        config={"device_class": "gpu", "precision": precision, "force_kernels": tuple(kernels.items())},
    )
    kinds = Counter(node.primitive.kind for node in compiled.program)
    assert kinds["quantized_convolution"] == len(names) == 5
    # What the maximum makes.
    assert kinds["static_quantize"] == 1
    (want,), (got,) = onnxruntime_outputs(model, feeds), compiled.run(feeds).values()
    # As above; in float16 the results of the other layers are rounded once more.
    steps = np.sqrt(8) + (8 if precision == "f16" else 0)
    np.testing.assert_allclose(got, want, rtol=0, atol=steps * np.ptp(want) / 255)


@pytest.mark.opencl
@pytest.mark.filterwarnings("ignore")
def test_a_quantised_network_runs_on_the_kernels_of_floats(device, tmp_path):
    model, _ = quantised("residual", "QDQ", tmp_path)
    # A CPU with short vectors of floats computes these few channels sooner from bytes.
    compiled = clgraph.compile(model, device=device, config={"disable_passes": frozenset({"use_integers"})})
    kinds = Counter(node.primitive.kind for node in compiled.program)
    assert not kinds.keys() & {"quantize", "dequantize"}
    assert kinds["activation"] <= 2, "what is rounded at the start, and beside a sum"


@pytest.mark.opencl
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("channels", [3, 48])
def test_convolutions_of_bytes_that_a_model_is_fed_return_the_bytes_of_onnxruntime(channels, signed, device, engine):
    rng = np.random.default_rng(channels)
    low, dtype = (-128, np.int8) if signed else (0, np.uint8)
    zeros = {n: np.array(low + 100 + i, dtype) for i, n in enumerate(("x_zero", "middle_zero", "y_zero"))}
    scales = {n: np.float32(s) for n, s in (("x_scale", 0.05), ("middle_scale", 0.4), ("y_scale", 0.7))}
    weights = {
        "w": rng.integers(-127, 128, (32, channels, 3, 3)).astype(np.int8),
        "v": rng.integers(-127, 128, (20, 32, 1, 1)).astype(np.int8),
        "w_scale": np.float32(0.4 / np.sqrt(channels * 900)),
        "w_zero": np.int8(0),
    }
    steps = ["w_scale", "w_zero"]
    nodes = [
        helper.make_node("QLinearConv", ["x", "x_scale", "x_zero", "w", *steps, "middle_scale", "middle_zero"], ["m"]),
        helper.make_node("QLinearConv", ["m", "middle_scale", "middle_zero", "v", *steps, "y_scale", "y_zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "bytes",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), (2, channels, 40, 37))],
        [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (zeros | scales | weights).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x": rng.integers(low, low + 256, (2, channels, 40, 37)).astype(dtype)}
    compiled = clgraph.compile(model, device=device)
    (want,), (got,) = onnxruntime_outputs(model, feeds), compiled.run(feeds).values()
    assert len(np.unique(want)) > 100
    # Beside a half a sum goes either way, and a step of the first result moves the second one's by less than one.
    assert (np.abs(got.astype(int) - want) <= 1).mean() >= 0.999
    if not signed and "vnni" in engine.info.features:
        kinds = [node.primitive.kind for node in compiled.program]
        assert kinds == ["reorder", "quantized_convolution", "quantized_convolution", "reorder"]
