"""Mixtures of experts as PyTorch's exporters write them, alone and behind a decoder's layers."""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_model
from tests.support.graph_writer import GraphWriter

K, WIDTH, EXPERTS = 16, 24, 5


def mixture(spelling: str, best: int = 2, extra: str = "", missing: tuple[int, ...] = ()) -> onnx.ModelProto:
    """Return a mixture of the *best* of some experts, in the spelling of the traced exporter or torch.export's.

    Args:
        spelling: ``traced`` or ``exported``, with codes of all experts; ``compared``: places are compared with one.
        missing: Experts without layers, as those that a trace has not met.
        extra: What is different: the mask has ``rows`` first; how many rows an expert has is a result (``count``);
            rows are summed with those before them (``vector``); ``places`` may be the same; rows are multiplied by the
            exponential of their shares (``power``), as no mixture does; sums begin with a product with 0 (``scaled``);
            the best are found one by one (``argmax``), or may be the same (``again``); experts have the GELU of the
            error function, not SiLU (``gelu``), and biases (``biased``), or small results (``faint``).
    """
    g = GraphWriter("mixture", opset=18)
    x = g.input("x", ("rows", K))
    scores = g.add("MatMul", x, g.constant(weights(g, K, EXPERTS)))
    shares, places = g.split("TopK", g.add("Softmax", scores, axis=1), g.integers(best), results=2)
    if extra in ("argmax", "again"):  # the second best are the best without the first, or of the same
        shares, places = two_best(g, scores, -np.inf if extra == "argmax" else 0.0)
    if extra == "places":
        places = g.add("Cast", shares, to=onnx.TensorProto.INT64)
    order = [2, 0, 1] if extra == "rows" else [2, 1, 0]
    turned = places
    if spelling == "traced":
        codes = g.add("OneHot", places, g.integers(EXPERTS), g.constant(np.array([0, 1], np.int64)), axis=-1)
        turned = g.add("Transpose", codes, perm=order)
    elif spelling == "exported":
        wide = g.add("Unsqueeze", places, g.integers(-1))
        equal = g.add("Equal", wide, g.constant(np.arange(EXPERTS, dtype=np.int64)))
        turned = g.add("Transpose", g.add("Cast", equal, to=onnx.TensorProto.INT64), perm=order)
    size, zero = g.add("Shape", x), np.zeros(1, np.float32)
    fill = onnx.numpy_helper.from_array(zero)
    total = g.add("Mul", x, g.number(0.0)) if extra == "scaled" else g.add("ConstantOfShape", size, value=fill)
    outputs = []
    for expert in (i for i in range(EXPERTS) if i not in missing):
        number = g.constant(np.array(expert, np.int64))
        if spelling == "compared":
            equal = g.add("Equal", places, number)
            mask = equal if extra == "rows" else g.add("Transpose", equal, perm=[1, 0])
        else:
            mask = g.add("Gather", turned, number)
        found = g.add("NonZero", g.add("Cast", mask, to=onnx.TensorProto.BOOL))
        pair = g.split("Split", g.add("Transpose", found, perm=[1, 0]), axis=1, num_outputs=2, results=2)
        place, row = (g.add("Squeeze", part, g.integers(1)) for part in pair)
        if extra == "rows":
            place, row = row, place
        own = g.add("Gather", x, row)
        hidden = g.add("MatMul", own, g.constant(weights(g, K, WIDTH)))
        if extra == "biased":
            hidden = g.add("Add", g.constant(weights(g, WIDTH)), hidden)
        hidden = g.add(
            "Mul", hidden, normal(g, hidden) if extra in ("gelu", "biased", "faint") else g.add("Sigmoid", hidden)
        )
        outer = weights(g, WIDTH, K) * np.float32(1e-4 if extra == "faint" else 1)
        made = g.add("MatMul", hidden, g.constant(outer))
        if extra == "biased":
            made = g.add("Add", made, g.constant(weights(g, K)))
        if extra == "vector":
            made = g.add("Add", made, g.add("CumSum", made, g.constant(np.array(0, np.int64))))
        at = g.add("Concat", g.add("Unsqueeze", row, g.integers(1)), g.add("Unsqueeze", place, g.integers(1)), axis=1)
        share = g.add("GatherND", shares, at)
        share = g.add("Exp", share) if extra == "power" else share
        made = g.add("Mul", made, g.add("Unsqueeze", share, g.integers(1)))
        column = g.add("Unsqueeze", row, g.integers(1))
        if spelling != "exported":
            wide = g.add("Expand", column, g.add("Shape", made))
            none = g.add("Mul", x, g.number(0.0)) if extra == "scaled" else g.add("ConstantOfShape", size, value=fill)
            total = g.add("Add", total, g.add("ScatterElements", none, wide, made, axis=0))
        else:
            total = g.add("ScatterND", total, column, made, reduction="add")
        if extra == "count":
            outputs.append(g.add("Cast", g.add("Shape", row), to=onnx.TensorProto.FLOAT))
    return g.model(total, *outputs)


def along(kind: str, axis: int) -> onnx.ModelProto:
    """Return what adds to rows ``[rows, K]`` something that *kind* makes of them along *axis*, 0 for that of tokens."""
    g = GraphWriter("along", opset=18)
    x = g.input("x", ("rows", K))
    best = "" if kind in ("cumulative_sum", "top_k", "repeat", "reshape") else g.add("ArgMax", x, axis=axis, keepdims=1)
    if kind == "arg":
        made = g.add("Cast", best, to=onnx.TensorProto.FLOAT)
    elif kind == "cumulative_sum":
        made = g.add("CumSum", x, g.constant(np.array(axis, np.int64)))
    elif kind == "gather_elements":
        made = g.add("GatherElements", x, best, axis=axis)
    elif kind == "scatter_elements":
        ones = g.add("Add", g.add("Cast", g.add("Mul", best, g.constant(np.array(0))), to=1), g.number(3.0))
        made = g.add("ScatterElements", x, best, ones, axis=axis)
    elif kind == "top_k":
        made, _ = g.split("TopK", x, g.integers(1), axis=axis, results=2)
    elif kind == "reshape":
        made = g.add("Reshape", x, g.integers(*((-1, K) if axis else (K, -1))))
        made = made if axis else g.add("Transpose", made, perm=[1, 0])
    else:
        tiled = g.add("Tile", x, g.integers(2, 1))
        shape = [2, -1, K] if axis else [-1, 2, K]
        made = g.add("ReduceMax", g.add("Reshape", tiled, g.integers(*shape)), g.integers(0 if axis else 1), keepdims=0)
    return g.model(g.add("Add", x, made))


def weights(g: GraphWriter, *shape: int) -> NDArray[np.float32]:
    return g.random.normal(0, shape[0] ** -0.5, shape).astype(np.float32)


def normal(g: GraphWriter, x: str) -> str:
    """Return the normal distribution at x."""
    erf = g.add("Erf", g.add("Div", x, g.number(2.0**0.5)))
    return g.add("Mul", g.add("Add", erf, g.number(1.0)), g.number(0.5))


def two_best(g: GraphWriter, scores: str, hidden: float) -> tuple[str, str]:
    """Return shares and places of the two best, the second of scores with *hidden* where the first are."""
    shares, places = [], []
    for _ in range(2):
        places.append(g.add("ArgMax", scores, axis=-1, keepdims=1))
        shares.append(g.add("GatherElements", g.add("Softmax", scores, axis=-1), places[-1], axis=-1))
        none = g.add("Expand", g.constant(np.array(hidden, np.float32)), g.add("Shape", places[-1]))
        scores = g.add("ScatterElements", scores, places[-1], none, axis=-1)
    return g.add("Concat", *shares, axis=-1), g.add("Concat", *places, axis=-1)


def decoder_with_experts(spelling: str) -> tuple[Decoder, onnx.ModelProto]:
    """Return a decoder of one layer, whose logits are those of experts behind it."""
    return decoder_with(mixture(spelling))


def decoder_with(rows_of: onnx.ModelProto) -> tuple[Decoder, onnx.ModelProto]:
    """Return a decoder of one layer, whose logits are those of what *rows_of* makes of rows ``[tokens, K]``."""
    d = Decoder("onnx23", 1, width=K, heads=1, shared=1, inner=WIDTH)
    made, experts = decoder_model(d), onnx.compose.add_prefix(rows_of, "experts/")
    nodes = list(made.graph.node)
    (last,) = (i for i, node in enumerate(nodes) if "logits" in node.output)
    hidden, rows, result = nodes[last].input[0], experts.graph.input[0].name, experts.graph.output[0].name
    for name, values in (("flat", [-1, K]), ("whole", [1, -1, K])):
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.array(values, np.int64), name))
    nodes[last].input[0] = "experts/whole"
    between = [
        onnx.helper.make_node("Reshape", [hidden, "flat"], [rows], "experts/rows"),
        *experts.graph.node,
        onnx.helper.make_node("Reshape", [result, "whole"], ["experts/whole"], "experts/whole"),
    ]
    made.graph.initializer.extend(experts.graph.initializer)
    del made.graph.node[:]
    made.graph.node.extend([*nodes[:last], *between, *nodes[last:]])
    return d, made


def decoder_with_a_table() -> tuple[Decoder, onnx.ModelProto]:
    """Return a decoder that gathers each token's row of a table of all places."""
    d, made = decoder_with(along("reshape", 1))
    numbers = {"step": np.array(1, np.int64), "none": np.array(0, np.int64), "one": np.array([1], np.int64)}
    made.graph.initializer.extend(onnx.numpy_helper.from_array(a, name) for name, a in numbers.items())
    key, add = "past_key_values.0.key", onnx.helper.make_node
    for node in made.graph.node:
        node.input[:] = ["behind" if name == "experts/whole" else name for name in node.input]
    before = [
        add("Shape", [key], ["past"], "past", start=2, end=3),
        add("Shape", ["position_ids"], ["count"], "count", start=1, end=2),
        add("Add", ["past", "count"], ["total"], "total"),
        add("Squeeze", ["total"], ["end"], "end"),
        add("Range", ["none", "end", "step"], ["range"], "range"),
        add("Cast", ["range"], ["angles"], "angles", to=onnx.TensorProto.FLOAT),
        add("Cos", ["angles"], ["cosines"], "cosines"),
        add("Unsqueeze", ["cosines", "one"], ["table"], "table"),
        add("Gather", ["table", "position_ids"], ["own"], "own", axis=0),
    ]
    nodes = list(made.graph.node)
    at = 1 + next(i for i, node in enumerate(nodes) if "experts/whole" in node.output)
    del made.graph.node[:]
    scaled = add("Mul", ["experts/whole", "own"], ["behind"], "behind")
    made.graph.node.extend([*before, *nodes[:at], scaled, *nodes[at:]])
    return d, made
