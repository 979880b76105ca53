"""Pairs of features turned by angles of their positions: ONNX's RotaryEmbedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.gather import Gather
from clgraph.ops.reshape import Reshape
from clgraph.ops.rotation import Rotation
from clgraph.ops.slice import Slice


@primitive
@frozen
class RotaryEmbedding(Composite):
    """Each pair (a, b) of a head's first *size* features becomes (a cos - b sin, b cos + a sin) (Su et al. 2021).

    Inputs: x ``[batch, heads, tokens, D]`` or, with *heads*, ``[batch, tokens, heads * D]``; cos and sin
    ``[positions, size / 2]`` with position ids ``[batch, tokens]``, or ``[batch, tokens, size / 2]`` without.

    Attributes:
        size: How many features are turned; 0 for all.
        interleaved: Pairs are neighbours, not of the first and the second half.
    """

    heads: int = 0
    size: int = 0
    interleaved: bool = False

    kind: ClassVar[str] = "rotary_embedding"

    def compose(self, c: Composition) -> Sequence[str]:
        x, *tables = c.inputs[:3]
        shape = c.layout(x).shape
        batch, tokens = shape[0], shape[-2]
        if len(shape) == 3:
            if self.heads < 1 or shape[2] % self.heads:
                raise ShapeError(f"{shape[2]} features are not {self.heads} heads")
            x = c.add(Reshape((batch, tokens, self.heads, shape[2] // self.heads), zero_is_zero=True), x)
        size = self.size or c.layout(x).shape[-1]
        rows = (batch, 1, tokens, size // 2) if len(shape) == 4 else (batch, tokens, 1, size // 2)
        angles = (self._rows(c, self._first(c, t, size // 2)) for t in tables)
        cos, sin = (c.add(Reshape(rows, zero_is_zero=True), t) for t in angles)
        y = c.add(Rotation(self.interleaved), x, cos, sin)
        return (c.add(Reshape(shape, zero_is_zero=True), y) if len(shape) == 3 else y,)

    def _rows(self, c: Composition, table: str) -> str:
        """Return the row of *table* of each token."""
        return c.add(Gather(0), table, c.inputs[3]) if len(c.inputs) > 3 else table

    def _first(self, c: Composition, table: str, count: int) -> str:
        if c.layout(table).shape[-1] < count:
            raise ShapeError(f"the table {c.layout(table)} has fewer than {count} angles a position")
        return c.add(Slice((0,), (count,), axes=(-1,)), table) if c.layout(table).shape[-1] > count else table


@onnx("RotaryEmbedding", since=(23,))
def import_rotary_embedding(node: OnnxNode) -> Primitive:
    interleaved = bool(node.attribute("interleaved", 0))
    return RotaryEmbedding(node.attribute("num_heads", 0), node.attribute("rotary_embedding_dim", 0), interleaved)
