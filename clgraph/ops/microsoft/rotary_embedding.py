"""ONNX Runtime's RotaryEmbedding: ONNX's, with the positions before the tables, or only the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand
from clgraph.ops.rotary_embedding import RotaryEmbedding


@primitive
@frozen
class Positions(Composite):
    """The place of each token of x: positions ``[batch, tokens]`` as they are, or counted from the one ``[1]``.

    Inputs: x ``[batch, tokens, H]`` or ``[batch, heads, tokens, D]``, positions. Result: ``[batch, tokens]``.
    """

    kind: ClassVar[str] = "positions"

    def compose(self, c: Composition) -> Sequence[str]:
        x, positions = c.inputs
        shape, given = c.layout(x).shape, c.layout(positions)
        wanted = (shape[0], shape[-2])
        if len(shape) not in (3, 4) or given.shape not in (wanted, (1,)):
            raise ShapeError(f"positions {list(given.shape)} are neither [1] nor {list(wanted)}")
        if given.shape == wanted:
            return (positions,)
        counted = c.constant(np.arange(wanted[1], dtype=given.dtype.numpy))
        return (c.add(Expand(wanted), c.add(Eltwise("add"), counted, positions)),)


@primitive
@frozen
class RotaryHeads(Composite):
    """RotaryEmbedding of x ``[batch, tokens, heads * D]`` whose heads the tables ``[positions, D / 2]`` tell."""

    interleaved: bool = False

    kind: ClassVar[str] = "rotary_heads"

    def compose(self, c: Composition) -> Sequence[str]:
        x, cos = c.inputs[:2]
        heads = c.layout(x).shape[-1] // max(2 * c.layout(cos).shape[-1], 1)
        return (c.add(RotaryEmbedding(heads, 0, self.interleaved), *c.inputs),)


@onnx("RotaryEmbedding", since=(1,), domain=MICROSOFT)
def import_rotary_embedding(node: OnnxNode) -> Sequence[str]:
    if node.attribute("is_packed_batching", 0):
        raise node.unsupported("is_packed_batching=1, texts of several lengths in one, is not there")
    x, positions, *tables = node.inputs
    heads, size = node.attribute("num_heads", 0), node.attribute("rotary_embedding_dim", 0)
    interleaved = bool(node.attribute("interleaved", 0))
    rotary = RotaryEmbedding(heads, size, interleaved) if heads else RotaryHeads(interleaved)
    return node.emit(rotary, x, *tables, *node.emit(Positions(), x, positions))
