"""Pairs of features turned by angles of their positions: ONNX's RotaryEmbedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.transpose import Transpose


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
        if len(shape) == 3:
            if self.heads < 1 or shape[2] % self.heads:
                raise ShapeError(f"{shape[2]} features are not {self.heads} heads")
            split = c.add(Reshape((*shape[:2], self.heads, shape[2] // self.heads), zero_is_zero=True), x)
        else:
            split = c.add(Transpose((0, 2, 1, 3)), x)
        batch, tokens, heads, width = c.layout(split).shape
        size = self.size or width
        cos, sin = (
            c.add(
                Reshape((batch, tokens, 1, size // 2), zero_is_zero=True),
                self._first(c, c.add(Gather(0), t, c.inputs[3]) if len(c.inputs) > 3 else t, size // 2),
            )
            for t in tables
        )
        turned = self._part(c, split, 0, size) if size < width else split
        if self.interleaved:
            turned = c.add(Reshape((batch, tokens, heads, size // 2, 2), zero_is_zero=True), turned)
            pairs = [c.add(Slice((i,), (i + 1,), axes=(-1,)), turned) for i in (0, 1)]
            a, b = (c.add(Reshape((batch, tokens, heads, size // 2), zero_is_zero=True), v) for v in pairs)
        else:
            a, b = self._part(c, turned, 0, size // 2), self._part(c, turned, size // 2, size)
        mul, add, sub = Eltwise("mul"), Eltwise("add"), Eltwise("sub")
        real = c.add(sub, c.add(mul, a, cos), c.add(mul, b, sin))
        imaginary = c.add(add, c.add(mul, a, sin), c.add(mul, b, cos))
        if self.interleaved:
            wide = [
                c.add(Reshape((batch, tokens, heads, size // 2, 1), zero_is_zero=True), v) for v in (real, imaginary)
            ]
            y = c.add(Reshape((batch, tokens, heads, size), zero_is_zero=True), c.add(Concat(-1), *wide))
        else:
            y = c.add(Concat(-1), real, imaginary)
        if size < width:
            y = c.add(Concat(-1), y, self._part(c, split, size, width))
        return (c.add(Reshape(shape, zero_is_zero=True) if len(shape) == 3 else Transpose((0, 2, 1, 3)), y),)

    def _part(self, c: Composition, x: str, start: int, end: int) -> str:
        return c.add(Slice((start,), (end,), axes=(-1,)), x)

    def _first(self, c: Composition, table: str, count: int) -> str:
        if c.layout(table).shape[-1] < count:
            raise ShapeError(f"the table {c.layout(table)} has fewer than {count} angles a position")
        return self._part(c, table, 0, count) if c.layout(table).shape[-1] > count else table


@onnx("RotaryEmbedding", since=(23,))
def import_rotary_embedding(node: OnnxNode) -> Primitive:
    interleaved = bool(node.attribute("interleaved", 0))
    return RotaryEmbedding(node.attribute("num_heads", 0), node.attribute("rotary_embedding_dim", 0), interleaved)
