"""Mixtures of experts whose rows are sorted by expert and split by how many each has, as exported ones may be."""

from __future__ import annotations

import numpy as np
import onnx

from tests.support.graph_writer import GraphWriter
from tests.support.mixtures import EXPERTS, WIDTH, K, weights

BEST = 2


def sorted_mixture(
    *, gated: bool = True, order: tuple[int, ...] = tuple(range(EXPERTS)), size: float = 0.5, ranges: bool = False
) -> onnx.ModelProto:
    """Return a mixture of the two best experts.

    Args:
        ranges: Rows are gathered between where an expert's begin and end, multiplied by columns and summed up by token,
            as Transformers' exporter writes them; else they are split, multiplied by rows and scattered.
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
    axes = (0, 2, 1) if ranges else (0, 1, 2)
    inner = g.constant((weights(g, EXPERTS, WIDTH * (1 + gated), K) * 0.5).transpose(axes))
    outer = g.constant((weights(g, EXPERTS, K, WIDTH) * np.float32(size)).transpose(axes))
    multiplied = products_of_ranges if ranges else products
    hidden = multiplied(g, g.add("Gather", x, row), sizes, inner, range(EXPERTS))
    if gated:
        gate, value = g.split("Split", hidden, axis=1, num_outputs=2, results=2)
        hidden = g.add("Mul", g.add("Mul", gate, g.add("Sigmoid", gate)), value)
    else:
        hidden = g.add("Relu", hidden)
    made = multiplied(g, hidden, sizes, outer, order)
    made = g.add("Mul", made, g.add("Unsqueeze", g.add("Gather", shares, stands), g.integers(1)))
    if ranges:
        order_back = g.add("ScatterElements", stands, stands, counted(g, g.add("Size", stands)), axis=0)
        pairs = g.add("Reshape", g.add("Gather", made, order_back), g.integers(-1, BEST, K))
        return g.model(g.add("ReduceSum", pairs, g.integers(1), keepdims=0))
    zeros = g.add("Expand", g.number(0.0), g.add("Shape", x))
    return g.model(g.add("ScatterND", zeros, g.add("Unsqueeze", row, g.integers(1)), made, reduction="add"))


def products(g: GraphWriter, rows: str, sizes: str, matrices: str, order: range | tuple[int, ...]) -> str:
    parts = g.split("Split", rows, sizes, axis=0, results=EXPERTS)
    numbers = [g.constant(np.array(i, np.int64)) for i in order]
    pairs = zip(parts, numbers, strict=True)
    made = [g.add("Gemm", part, g.add("Gather", matrices, number), transB=1) for part, number in pairs]
    return g.add("Concat", *made, axis=0)


def products_of_ranges(g: GraphWriter, rows: str, sizes: str, matrices: str, order: range | tuple[int, ...]) -> str:
    ends = g.split(
        "Split", g.add("CumSum", sizes, g.constant(np.array(0, np.int64))), num_outputs=EXPERTS, results=EXPERTS
    )
    own = g.split("Split", matrices, num_outputs=EXPERTS, results=EXPERTS)
    made, first = list[str](), g.constant(np.array(0, np.int64))
    for end, number in zip(ends, order, strict=True):
        last = g.add("Squeeze", end, g.integers(0))
        part = g.add("Gather", rows, g.add("Range", first, last, g.constant(np.array(1, np.int64))))
        made.append(g.add("MatMul", part, g.add("Squeeze", own[number], g.integers(0))))
        first = last
    return g.add("Concat", *made, axis=0)


def counted(g: GraphWriter, count: str) -> str:
    return g.add("Range", g.constant(np.array(0, np.int64)), count, g.constant(np.array(1, np.int64)))


def gathered_mixture(*, gated: bool = True, whole: bool = False, last: int = EXPERTS - 1) -> onnx.ModelProto:
    """Return a mixture of the two best experts, of which each choice of each row has its matrices gathered.

    Args:
        gated: As above; then rows are repeated by tiles and matrices gathered by GatherND, else both by Gather.
        whole: All rows are repeated, not each, so that a choice's row is another's.
        last: The largest number of an expert whose second matrix is read; those above have its.
    """
    g = GraphWriter("gathered", opset=18)
    x = g.input("x", (1, "rows", K))
    rows = g.add("Reshape", x, g.integers(-1, K))
    scores = g.add("MatMul", rows, g.constant(weights(g, K, EXPERTS)))
    best, places = g.split("TopK", scores, g.integers(BEST), axis=1, results=2)
    shares = g.add("Softmax", best, axis=1)
    flat = g.add("Reshape", places, g.integers(-1))
    if gated:
        repeats = (BEST, 1, 1) if whole else (1, BEST, 1)
        tiles = g.add("Tile", g.add("Unsqueeze", rows, g.integers(0 if whole else 1)), g.integers(*repeats))
        own = g.add("Reshape", tiles, g.integers(-1, K))
    else:
        numbers = counted(g, g.add("Size", places))
        own = g.add("Gather", rows, g.add("Div", numbers, g.constant(np.array(BEST, np.int64))))
    inner = weights(g, EXPERTS, WIDTH * (1 + gated), K) * np.float32(0.5)
    outer = weights(g, EXPERTS, K, WIDTH) * np.float32(0.5)
    hidden = _gathered_product(g, own, inner, flat, gated=gated)
    if gated:
        gate, value = g.split("Split", hidden, axis=1, num_outputs=2, results=2)
        hidden = g.add("Mul", g.add("Mul", gate, g.add("Sigmoid", gate)), value)
    else:
        hidden = g.add("Relu", hidden)
    known = g.add("Min", flat, g.constant(np.array(last, np.int64))) if last < EXPERTS - 1 else flat
    made = _gathered_product(g, hidden, outer, known, gated=gated)
    made = g.add("Mul", made, g.add("Reshape", shares, g.integers(-1, 1)))
    total = g.add("ReduceSum", g.add("Reshape", made, g.integers(-1, BEST, K)), g.integers(1), keepdims=0)
    return g.model(g.add("Add", g.add("Reshape", total, g.add("Shape", x)), x))


def _gathered_product(g: GraphWriter, rows: str, matrices: np.ndarray, numbers: str, *, gated: bool) -> str:
    if gated:
        own = g.add("GatherND", g.constant(matrices), g.add("Unsqueeze", numbers, g.integers(-1)))
        return g.add("Squeeze", g.add("MatMul", own, g.add("Unsqueeze", rows, g.integers(-1))), g.integers(-1))
    own = g.add("Gather", g.constant(matrices.transpose(0, 2, 1).copy()), numbers)
    return g.add("Squeeze", g.add("MatMul", g.add("Unsqueeze", rows, g.integers(1)), own), g.integers(1))
