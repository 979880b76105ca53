"""Small valid models to change: ONNX's own cases of single nodes, and a few networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import parser

from tests.support.graph_writer import GraphWriter
from tests.support.models import small_model
from tests.support.node_cases import node_cases

Array = NDArray[Any]

MOST_BYTES = 20_000
"""Larger cases are left out: a mutation of one shows nothing that one of a smaller case does not."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A valid model and inputs that it takes."""

    name: str
    model: onnx.ModelProto
    feeds: Mapping[str, Array]


@cache
def seeds() -> tuple[Seed, ...]:
    """Return all seeds, in an order that stays the same for one version of onnx."""
    return (*networks(), *single_nodes())


@cache
def networks() -> tuple[Seed, ...]:
    """Return the networks alone: they are had at once."""
    x = np.random.default_rng(0).normal(size=(1, 3, 10, 10)).astype(np.float32)
    made = [Seed("small", small_model(), {"x": x}), Seed("open", small_model(size="n"), {"x": x})]
    made += [Seed(m.graph.name, m, _feeds(m)) for m in (_mobile(), _text(), _detector(), *map(_parsed, _TEXTS))]
    return tuple(made)


@cache
def single_nodes() -> tuple[Seed, ...]:
    """Return ONNX's cases of single nodes that are not large."""
    found = []
    for case in node_cases():
        if case.model is None or case.model.ByteSize() > MOST_BYTES:
            continue
        names = [value.name for value in case.model.graph.input]
        arrays = case.data_sets[0][0]
        feeds = {n: a for n, a in zip(names, arrays, strict=False) if isinstance(a, np.ndarray | np.generic)}
        found.append(Seed(case.name, case.model, {n: np.asarray(a) for n, a in feeds.items()}))
    return tuple(found)


def _feeds(model: onnx.ModelProto) -> dict[str, Array]:
    random = np.random.default_rng(1)
    found: dict[str, Array] = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [d.dim_value or 2 for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        found[value.name] = np.asarray(random.normal(size=shape)).astype(dtype)
    return found


def _mobile() -> onnx.ModelProto:
    w = GraphWriter("mobile", 1)
    x = w.input("x", (1, 3, 12, 12))
    y = w.add("Clip", w.conv(x, 3, 16, 3, 2, normalized=True), w.number(0.0), w.number(6.0))
    z = w.add("HardSwish", w.conv(y, 16, 16, 3, groups=16))
    gate = w.add("HardSigmoid", w.conv(w.add("GlobalAveragePool", z), 16, 16), alpha=1 / 6)
    y = w.add("Add", w.conv(w.add("Mul", z, gate), 16, 16), y)
    y = w.add("Concat", w.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), w.conv(y, 16, 8, 3, 2), axis=1)
    y = w.add("Resize", y, "", w.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    return w.model(w.add("Softmax", w.linear(w.add("Flatten", y), 24 * 36, 10), axis=1))


def _text() -> onnx.ModelProto:
    w = GraphWriter("text", 2)
    ids = w.input("ids", ("batch", 6), "int64")
    x = w.add("Gather", w.constant(w.random.normal(size=(8, 16)).astype(np.float32)), w.add("Abs", ids), axis=0)
    x = w.add("LayerNormalization", x, w.factor(16), w.bias(16), axis=-1, epsilon=1e-5)
    heads = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        y = w.add("MatMul", x, w.weight(16, 16, fan_in=16))
        heads.append(w.add("Transpose", w.add("Reshape", y, w.integers(0, 0, 2, 8)), perm=perm))
    score = w.add("Softmax", w.add("Div", w.add("MatMul", *heads[:2]), w.number(2.8)), axis=-1)
    y = w.add("Transpose", w.add("MatMul", score, heads[2]), perm=[0, 2, 1, 3])
    y = w.add("Add", w.add("Reshape", y, w.integers(0, 0, -1)), x)
    first, second = w.split("Split", y, w.integers(8, 8), results=2, axis=2)
    return w.model(w.add("Erf", first), w.add("ReduceMean", second, axes=[1], keepdims=0))


def _detector() -> onnx.ModelProto:
    w = GraphWriter("detector", 3)
    x = w.input("x", (1, 3, 8, 8))
    y = w.add("Sigmoid", w.conv(x, 3, 6, 3))
    rows = w.add("Transpose", w.add("Reshape", y, w.integers(6, -1)), perm=[1, 0])
    score = w.add("Slice", rows, w.integers(4), w.integers(5), w.integers(1))
    kept = w.add("NonZero", w.add("Greater", w.add("Squeeze", score, w.integers(1)), w.number(0.5)))
    return w.model(w.add("GatherND", rows, w.add("Transpose", kept, perm=[1, 0])), w.add("Shape", kept))


def _parsed(text: str) -> onnx.ModelProto:
    return parser.parse_model(text)


_TEXTS = (
    """<ir_version: 8, opset_import: ["": 17]>
    branch (float[2,3] x, bool c) => (float[2,3] y) {
      t = Relu(x)
      y = If (c) <then_branch = yes () => (float[2,3] a) { a = Add(t, x) },
                  else_branch = no () => (float[2,3] b) { b = Mul(t, x) }>
    }""",
    """<ir_version: 8, opset_import: ["": 17]>
    loop (float[3] x) => (float[3] y, float[n,3] z) {
      n = Constant <value = int64 {3}> ()
      go = Constant <value = bool {1}> ()
      y, z = Loop (n, go, x) <body = step (int64 i, bool c, float[3] a) => (bool d, float[3] b, float[3] s)
        { d = Identity(c) b = Add(a, x) s = Neg(b) }>
    }""",
    """<ir_version: 10, opset_import: ["": 18, "local": 1]>
    functions (float[N,4] x) => (float[N,4] y, float[N,4] z) {
      [one] y = local.f (x)
      [two] z = local.f (y)
    }
    <domain: "local", opset_import: ["": 18]>
    f (a) => (b) { [inner] t = Relu(a) b = Sigmoid(t) }""",
)
