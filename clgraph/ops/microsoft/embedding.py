"""Sums of embeddings, normalised: ONNX Runtime's EmbedLayerNormalization, of floats and of integers with scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.microsoft.normalization import EPSILON
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.slice import Slice


@primitive
@frozen
class EmbeddingSum(Composite):
    """The embeddings of words, places and, where *given*, segments: ``[batch, tokens, width]``.

    Inputs: words ``[batch, tokens]``, tables of words and of places ``[rows, width]``, then as *given* says: segments
    and their table, places ``[batch or 1, tokens]``; without places they are counted from 0.
    """

    given: tuple[str, ...] = ()

    kind: ClassVar[str] = "embedding_sum"

    @property
    def picks(self) -> tuple[tuple[int, int, int], ...]:
        at = {name: 3 + i for i, name in enumerate(self.given)}
        segments = ((at["segment_table"], at["segments"], 0),) if "segments" in at else ()
        return ((1, 0, 0), *segments, *(((2, at["places"], 0),) if "places" in at else ()))

    def compose(self, c: Composition) -> Sequence[str]:
        words, table, places = c.inputs[:3]
        given = dict(zip(self.given, c.inputs[3:], strict=True))
        shape = c.layout(words).shape
        if len(shape) != 2:
            raise ShapeError(f"input_ids must be [batch, tokens], not {list(shape)}")
        if shape[1] > c.layout(places).shape[0] and "places" not in given:
            raise ShapeError(f"{shape[1]} tokens exceed the {c.layout(places).shape[0]} positions of the table")
        if "places" in given:
            placed = c.add(Gather(0), places, given["places"])
        else:
            placed = c.add(Slice((0,), (shape[1],), axes=(0,)), places)
        y = c.add(Eltwise("add"), c.add(Gather(0), table, words), placed)
        if "segments" in given:
            y = c.add(Eltwise("add"), y, c.add(Gather(0), given["segment_table"], given["segments"]))
        return (y,)


@primitive
@frozen
class CountWords(Composite):
    """How many entries a row of the mask ``[batch, tokens]`` has that are 1, in int32; zeros ``[batch]`` without one.

    Attributes:
        masked: Whether the input is a mask, and not the words.
    """

    masked: bool

    kind: ClassVar[str] = "count_words"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        if not self.masked:
            return (c.constant(np.zeros(c.layout(x).shape[:1], np.int32)),)
        ones = c.add(Eltwise("equal"), x, c.constant(np.ones((), c.layout(x).dtype.numpy)))
        return (c.add(Reduce("sum", (1,), keepdims=False), c.add(Reorder(DType.I32), ones)),)


def _embed(
    node: OnnxNode, words: str, segments: str, tables: Sequence[str], norm: Sequence[str], mask: str, places: str
) -> tuple[str, ...]:
    """Emit sum, normalisation and count of the words; *tables* are those of words, places and segments."""
    given = {"segments": segments, "segment_table": tables[2] if segments else "", "places": places}
    reads = {name: value for name, value in given.items() if value}
    (total,) = node.emit(EmbeddingSum(tuple(reads)), words, *tables[:2], *reads.values())
    (y,) = node.emit(LayerNormalization(-1, node.attribute("epsilon", EPSILON)), total, *norm)
    if node.output_count < 2:
        return (y,)
    return (y, *node.emit(CountWords(bool(mask)), mask or words), total)


@onnx("EmbedLayerNormalization", since=(1,), domain=MICROSOFT)
def import_embed_layer_normalization(node: OnnxNode) -> Sequence[str]:
    words, segments, table, places, segment_table, scale, shift, mask, ids = (*node.inputs, "", "")[:9]
    return _embed(node, words, segments, (table, places, segment_table), (scale, shift), mask, ids)


@onnx("QEmbedLayerNormalization", since=(1,), domain=MICROSOFT)
def import_q_embed_layer_normalization(node: OnnxNode) -> Sequence[str]:
    words, segments, *quantised = node.inputs[:7]
    mask, scales, zeros = node.inputs[7], node.inputs[8:13], node.inputs[13:18]
    floats = [
        node.emit(Dequantize(), x, scale, zero)[0] if x else ""
        for x, scale, zero in zip(quantised, scales, zeros, strict=True)
    ]
    return _embed(node, words, segments, floats[:3], floats[3:], mask, "")
