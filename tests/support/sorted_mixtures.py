"""Mixtures of experts whose rows are sorted by expert and split by how many each has, as exported ones may be."""

from __future__ import annotations

import numpy as np
import onnx

from tests.support.graph_writer import GraphWriter
from tests.support.mixtures import EXPERTS, WIDTH, K, weights

BEST = 2


def sorted_mixture(
    *, gated: bool = True, order: tuple[int, ...] = tuple(range(EXPERTS)), size: float = 0.5
) -> onnx.ModelProto:
    """Return a mixture of the two best experts.

    Args:
        gated: Half of what an expert's first matrix makes is a gate of the other half.
        order: Which of the second matrices each expert has.
        size: Of these matrices.
    """
    g = GraphWriter("sorted", opset=18)
    x = g.input("x", ("rows", K))
    scores = g.add("MatMul", x, g.constant(weights(g, K, EXPERTS)))
    best, places = g.split("TopK", scores, g.integers(BEST), axis=1, results=2)
    shares = g.add("Reshape", g.add("Softmax", best, axis=1), g.integers(-1))
    ones = g.add("ConstantOfShape", g.add("Shape", places), value=onnx.numpy_helper.from_array(np.ones(1, np.float32)))
    none = g.add("Expand", g.number(0.0), g.add("Shape", scores))
    codes = g.add("Cast", g.add("ScatterElements", none, places, ones, axis=1), to=onnx.TensorProto.INT64)
    sizes = g.add("ReduceSum", codes, g.integers(0), keepdims=0)
    flat = g.add("Reshape", places, g.integers(-1))
    _, stands = g.split("TopK", flat, g.add("Shape", flat), axis=0, largest=0, results=2)
    row = g.add("Div", stands, g.constant(np.array(BEST, np.int64)))
    inner = g.constant(weights(g, EXPERTS, WIDTH * (1 + gated), K) * 0.5)
    outer = g.constant(weights(g, EXPERTS, K, WIDTH) * np.float32(size))
    hidden = products(g, g.add("Gather", x, row), sizes, inner, range(EXPERTS))
    if gated:
        gate, value = g.split("Split", hidden, axis=1, num_outputs=2, results=2)
        hidden = g.add("Mul", g.add("Mul", gate, g.add("Sigmoid", gate)), value)
    else:
        hidden = g.add("Relu", hidden)
    made = products(g, hidden, sizes, outer, order)
    made = g.add("Mul", made, g.add("Unsqueeze", g.add("Gather", shares, stands), g.integers(1)))
    zeros = g.add("Expand", g.number(0.0), g.add("Shape", x))
    return g.model(g.add("ScatterND", zeros, g.add("Unsqueeze", row, g.integers(1)), made, reduction="add"))


def products(g: GraphWriter, rows: str, sizes: str, matrices: str, order: range | tuple[int, ...]) -> str:
    parts = g.split("Split", rows, sizes, axis=0, results=EXPERTS)
    numbers = [g.constant(np.array(i, np.int64)) for i in order]
    pairs = zip(parts, numbers, strict=True)
    made = [g.add("Gemm", part, g.add("Gather", matrices, number), transB=1) for part, number in pairs]
    return g.add("Concat", *made, axis=0)
