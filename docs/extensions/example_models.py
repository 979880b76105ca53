"""The models that the page on passes shows in the explorer: pictures, text, and a quantised network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx.parser
from onnx import numpy_helper

from extensions.example import SHAPES, example

_ENCODER = """
<ir_version: 8, opset_import: ["" : 17]>
encoder (int64[1, 32] tokens) => (float[1, 4] y) {
    heads = Constant<value_ints = [1, 32, 4, 16]>()
    joined = Constant<value_ints = [1, 32, 64]>()
    scale = Constant<value_float = 0.25>()
    half = Constant<value_float = 0.5>()
    root = Constant<value_float = 1.41421354>()
    one = Constant<value_float = 1.0>()
    x = Gather(words, tokens)
    n = LayerNormalization<axis = -1>(x, g1, b1)
    q1 = MatMul(n, wq)
    k1 = MatMul(n, wk)
    v1 = MatMul(n, wv)
    q2 = Reshape(q1, heads)
    k2 = Reshape(k1, heads)
    v2 = Reshape(v1, heads)
    q = Transpose<perm = [0, 2, 1, 3]>(q2)
    k = Transpose<perm = [0, 2, 3, 1]>(k2)
    v = Transpose<perm = [0, 2, 1, 3]>(v2)
    scores = MatMul(q, k)
    scaled = Mul(scores, scale)
    shares = Softmax<axis = -1>(scaled)
    mixed = MatMul(shares, v)
    back = Transpose<perm = [0, 2, 1, 3]>(mixed)
    flat = Reshape(back, joined)
    projected = MatMul(flat, wo)
    sum = Add(projected, x)
    n2 = LayerNormalization<axis = -1>(sum, g2, b2)
    wide = MatMul(n2, w1)
    biased = Add(wide, c1)
    by = Div(biased, root)
    erf = Erf(by)
    more = Add(erf, one)
    times = Mul(biased, more)
    gelu = Mul(times, half)
    narrow = MatMul(gelu, w2)
    out = Add(narrow, sum)
    mean = ReduceMean<axes = [1], keepdims = 0>(out)
    logits = MatMul(mean, wy)
    y = Softmax<axis = -1>(logits)
}
"""
_QUANTISED = """
<ir_version: 8, opset_import: ["" : 17]>
quantised (float[1, 16, 32, 32] x) => (float[1, 10] y) {
    one = Constant<value_float = 0.02>()
    small = Constant<value_float = 0.01>()
    zero = Constant<value = uint8 {128}>()
    none = Constant<value = int8 {0}>()
    qx = QuantizeLinear(x, one, zero)
    dx = DequantizeLinear(qx, one, zero)
    f1 = DequantizeLinear(w1, small, none)
    c1 = Conv<pads = [1, 1, 1, 1]>(dx, f1)
    r1 = Relu(c1)
    q1 = QuantizeLinear(r1, one, zero)
    d1 = DequantizeLinear(q1, one, zero)
    f2 = DequantizeLinear(w2, small, none)
    c2 = Conv<pads = [1, 1, 1, 1]>(d1, f2)
    s = Add(c2, d1)
    r2 = Relu(s)
    q2 = QuantizeLinear(r2, one, zero)
    d2 = DequantizeLinear(q2, one, zero)
    m = GlobalAveragePool(d2)
    flat = Flatten(m)
    y = MatMul(flat, wy)
}
"""


@dataclass(frozen=True)
class Shown:
    """A model of the page: what it is called there, what makes it, and the shapes that it is compiled for."""

    title: str
    make: Callable[[], Any]
    shapes: dict[str, tuple[int, ...]] | None = None


def _encoder() -> onnx.ModelProto:
    sizes = {"words": (64, 64), "wq": (64, 64), "wk": (64, 64), "wv": (64, 64), "wo": (64, 64)}
    sizes |= {"g1": (64,), "b1": (64,), "g2": (64,), "b2": (64,)}
    sizes |= {"w1": (64, 256), "c1": (256,), "w2": (256, 64), "wy": (64, 4)}
    random = np.random.default_rng(0)
    return _model(_ENCODER, {n: random.standard_normal(s, np.float32) for n, s in sizes.items()})


def _quantised() -> onnx.ModelProto:
    random = np.random.default_rng(0)
    weights = {n: random.integers(-127, 128, (16, 16, 3, 3), np.int8) for n in ("w1", "w2")}
    return _model(_QUANTISED, {**weights, "wy": random.standard_normal((16, 10), np.float32)})


def _model(text: str, weights: dict[str, Any]) -> onnx.ModelProto:
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    for node in model.graph.node:
        node.name = node.output[0]
    return model


MODELS = {
    "pictures": Shown("a classifier of pictures", example, SHAPES),
    "text": Shown("an encoder of text", _encoder),
    "quantised": Shown("a quantised network", _quantised),
}
