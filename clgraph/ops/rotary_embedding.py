"""Pairs of features turned by angles of their positions: ONNX's RotaryEmbedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.reshape import Reshape
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
        width = c.layout(x).shape[-1]
        size = self.size or width
        turned = self._part(c, x, 0, size) if size < width else x
        # Tables that are known are made as wide as heads once, others the rows of the tokens at hand.
        known = all(value is not None for value in c.values[1:3]) and bool(c.values)
        cos, sin = (self._first(c, t if known else self._rows(c, t), size // 2) for t in tables)
        pair = [self._joined(c, cos, cos), self._joined(c, c.add(Activation("neg"), sin), sin)]
        if known:
            pair = [self._rows(c, t) for t in pair]
        angles = (batch, 1, tokens, size) if len(shape) == 4 else (batch, tokens, 1, size)
        by_cos, by_sin = (c.add(Reshape(angles, zero_is_zero=True), t) for t in pair)
        # Every feature by the cosine, and the other of its pair by the sine, of the first with a minus.
        other = c.add(Eltwise("mul"), self._exchanged(c, turned), by_sin)
        y = c.add(Eltwise("add"), c.add(Eltwise("mul"), turned, by_cos), other)
        if size < width:
            y = c.add(Concat(-1), y, self._part(c, x, size, width))
        return (c.add(Reshape(shape, zero_is_zero=True), y) if len(shape) == 3 else y,)

    def _part(self, c: Composition, x: str, start: int, end: int) -> str:
        return c.add(Slice((start,), (end,), axes=(-1,)), x)

    def _rows(self, c: Composition, table: str) -> str:
        """Return the row of *table* of each token."""
        return c.add(Gather(0), table, c.inputs[3]) if len(c.inputs) > 3 else table

    def _joined(self, c: Composition, first: str, second: str) -> str:
        """Return a table of both features of each pair, where these stand."""
        if not self.interleaved:
            return c.add(Concat(-1), first, second)
        shape = c.layout(first).shape
        both = (c.add(Reshape((*shape, 1), zero_is_zero=True), t) for t in (first, second))
        return c.add(Reshape((*shape[:-1], 2 * shape[-1]), zero_is_zero=True), c.add(Concat(-1), *both))

    def _exchanged(self, c: Composition, x: str) -> str:
        """Return *x* with the features of each pair exchanged."""
        shape = c.layout(x).shape
        pair = (shape[-1] // 2, 2) if self.interleaved else (2, shape[-1] // 2)
        apart = c.add(Reshape((*shape[:-1], *pair), zero_is_zero=True), x)
        turned = c.add(Slice((-1,), (-3,), (-1,), axes=(-1 if self.interleaved else -2,)), apart)
        return c.add(Reshape(shape, zero_is_zero=True), turned)

    def _first(self, c: Composition, table: str, count: int) -> str:
        if c.layout(table).shape[-1] < count:
            raise ShapeError(f"the table {c.layout(table)} has fewer than {count} angles a position")
        return self._part(c, table, 0, count) if c.layout(table).shape[-1] > count else table


@onnx("RotaryEmbedding", since=(23,))
def import_rotary_embedding(node: OnnxNode) -> Primitive:
    interleaved = bool(node.attribute("interleaved", 0))
    return RotaryEmbedding(node.attribute("num_heads", 0), node.attribute("rotary_embedding_dim", 0), interleaved)
