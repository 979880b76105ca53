"""Encoders of text (BERT and its small relatives) in plain ONNX operators, as exporters write them, random weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.support.graph_writer import GraphWriter

MASKED = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Encoder:
    """Sizes of an encoder; ``inner`` is the width of its feed-forward layers."""

    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int = 30522
    positions: int = 512


BERT_BASE = Encoder(12, 768, 12, 3072)
MINILM_L6 = Encoder(6, 384, 12, 1536)


def encoder(sizes: Encoder, batch: int | str, tokens: int | str, seed: int = 0) -> onnx.ModelProto:
    """Return an encoder of [batch, tokens] ids to [batch, tokens, width] states.

    Layer normalisation, gelu (by erf) and attention are spelled out. With open dimensions the shapes of the reshapes
    are computed from the input's, as a traced model does; with numbers they are constants.
    """
    g = GraphWriter("encoder", seed)
    ids, mask, types = (g.input(n, (batch, tokens), "int64") for n in ("input_ids", "attention_mask", "token_type_ids"))
    shapes = _Shapes(g, ids, batch, tokens)
    words = g.weight(sizes.vocabulary, sizes.width, fan_in=1, gain=0.01)
    kinds = g.weight(2, sizes.width, fan_in=1, gain=0.01)
    places = g.weight(sizes.positions, sizes.width, fan_in=1, gain=0.01)
    x = g.add("Add", g.add("Gather", words, ids, axis=0), g.add("Gather", kinds, types, axis=0))
    x = _normalized(g, g.add("Add", x, g.add("Gather", places, shapes.positions(sizes.positions), axis=0)), sizes.width)
    seen = g.add("Unsqueeze", g.add("Unsqueeze", mask, g.integers(1)), g.integers(2))
    hidden = g.add("Sub", g.number(1), g.add("Cast", seen, to=onnx.TensorProto.FLOAT))
    bias = g.add("Mul", hidden, g.number(MASKED))
    for _ in range(sizes.layers):
        x = _normalized(g, g.add("Add", _attention(g, x, bias, sizes, shapes), x), sizes.width)
        y = _gelu(g, _dense(g, x, sizes.width, sizes.inner))
        x = _normalized(g, g.add("Add", _dense(g, y, sizes.inner, sizes.width), x), sizes.width)
    return g.model(x)


def tokens(
    batch: int, count: int, vocabulary: int = 30522, hidden: int = 0, seed: int = 0
) -> dict[str, NDArray[np.int64]]:
    """Return random inputs of an encoder; the last *hidden* tokens of the last row are masked."""
    random = np.random.default_rng(seed)
    mask = np.ones((batch, count), np.int64)
    mask[-1, count - hidden :] = 0
    ids = random.integers(0, vocabulary, (batch, count))
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": random.integers(0, 2, (batch, count))}


class _Shapes:
    """The shapes that reshapes need: constants, or computed from the ids' shape."""

    def __init__(self, g: GraphWriter, ids: str, batch: int | str, tokens: int | str) -> None:
        self.g, self.ids, self.batch, self.tokens = g, ids, batch, tokens
        self.fixed = isinstance(batch, int) and isinstance(tokens, int)

    def of(self, *inner: int) -> str:
        """Return the shape [batch, tokens, *inner*]."""
        if self.fixed:
            return self.g.integers(int(self.batch), int(self.tokens), *inner)
        sizes = [self._size(axis) for axis in (0, 1)]
        return self.g.add("Concat", *sizes, *(self.g.integers(i) for i in inner), axis=0)

    def positions(self, most: int) -> str:
        """Return the tokens' positions, [1, tokens]."""
        if self.fixed:
            return self.g.constant(np.arange(int(self.tokens))[None])
        table = self.g.constant(np.arange(most)[None])
        return self.g.add("Slice", table, self.g.integers(0), self._size(1), self.g.integers(1), self.g.integers(1))

    def _size(self, axis: int) -> str:
        index = self.g.constant(np.array(axis))
        size = self.g.add("Gather", self.g.add("Shape", self.ids), index, axis=0)
        return self.g.add("Unsqueeze", size, self.g.integers(0))


def _dense(g: GraphWriter, x: str, inputs: int, outputs: int) -> str:
    product = g.add("MatMul", x, g.weight(inputs, outputs, fan_in=inputs, gain=1.0))
    return g.add("Add", g.bias(outputs), product)


def _normalized(g: GraphWriter, x: str, width: int) -> str:
    centred = g.add("Sub", x, g.add("ReduceMean", x, axes=[-1]))
    variance = g.add("ReduceMean", g.add("Pow", centred, g.number(2)), axes=[-1])
    deviation = g.add("Sqrt", g.add("Add", variance, g.number(1e-12)))
    scaled = g.add("Mul", g.add("Div", centred, deviation), g.factor(width))
    return g.add("Add", scaled, g.bias(width))


def _gelu(g: GraphWriter, x: str) -> str:
    gate = g.add("Add", g.add("Erf", g.add("Div", x, g.number(math.sqrt(2)))), g.number(1))
    return g.add("Mul", g.add("Mul", x, gate), g.number(0.5))


def _attention(g: GraphWriter, x: str, bias: str, sizes: Encoder, shapes: _Shapes) -> str:
    """Add self-attention and its output layer; *bias* [batch, 1, 1, tokens] hides the masked keys."""
    each = sizes.width // sizes.heads

    def heads(perm: list[int]) -> str:
        y = _dense(g, x, sizes.width, sizes.width)
        return g.add("Transpose", g.add("Reshape", y, shapes.of(sizes.heads, each)), perm=perm)

    queries, keys, values = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
    scores = g.add("Div", g.add("MatMul", queries, keys), g.number(math.sqrt(each)))
    weights = g.add("Softmax", g.add("Add", scores, bias), axis=-1)
    mixed = g.add("Transpose", g.add("MatMul", weights, values), perm=[0, 2, 1, 3])
    return _dense(g, g.add("Reshape", mixed, shapes.of(sizes.width)), sizes.width, sizes.width)
