"""No n-gram twice: ONNX Runtime's NGramRepeatBlock, which decoders of texts have behind their scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.scatter_elements import ScatterElements
from clgraph.ops.slice import Slice
from clgraph.ops.where import Where


@primitive
@frozen
class NGramRepeatBlock(Composite):
    """Scores ``[batch, words]``, -inf for words that behind tokens ``[batch, tokens]`` make an n-gram of *size* again.

    Inputs: tokens, scores.
    """

    size: int

    kind: ClassVar[str] = "ngram_repeat_block"

    def compose(self, c: Composition) -> Sequence[str]:
        tokens, scores = c.inputs
        shape, of_scores = c.layout(tokens).shape, c.layout(scores).shape
        if len(shape) != 2 or len(of_scores) != 2 or shape[0] != of_scores[0] or self.size < 1:
            raise ShapeError(f"tokens {list(shape)} and scores {list(of_scores)} cannot have n-grams of {self.size}")
        count, dtype = shape[1] - self.size + 1, c.layout(scores).dtype.numpy
        if count < 1:
            return (scores,)
        again = [
            c.add(
                Eltwise("equal"),
                self._part(c, tokens, i, count),
                self._part(c, tokens, count + i, 1),
            )
            for i in range(self.size - 1)
        ]
        words = self._part(c, tokens, self.size - 1, count)
        never, free = (c.constant(np.full((shape[0], count), v, dtype)) for v in (-np.inf, np.inf))
        limits = never
        if again:
            limits = c.add(Where(), reduce(lambda a, b: c.add(Eltwise("and"), a, b), again), never, free)
        return (c.add(ScatterElements(1, "min"), scores, words, limits),)

    def _part(self, c: Composition, tokens: str, start: int, count: int) -> str:
        return c.add(Slice((start,), (start + count,), axes=(1,)), tokens)


@onnx("NGramRepeatBlock", since=(1,), domain=MICROSOFT)
def import_ngram_repeat_block(node: OnnxNode) -> Primitive:
    return NGramRepeatBlock(node.attribute("ngram_size", 0))
