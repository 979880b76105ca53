"""A tensor as the element type of another: ONNX's CastLike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.host_types import STRINGS, numpy_type
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.reorder import cast_rules, cast_to
from clgraph.ops.string_cast import StringCast


@primitive
@frozen
class CastLike(Composite):
    """``y`` is input 0 as the element type of input 1: a :class:`Reorder`, with its rules."""

    saturate: bool = True
    round_mode: str = "up"

    kind: ClassVar[str] = "cast_like"

    def compose(self, c: Composition) -> Sequence[str]:
        x, like = c.inputs
        return (c.add(cast_to(c.layout(like).dtype, self.saturate, self.round_mode), x),)


@onnx("CastLike", since=(15, 19, 21, 23, 24, 25))
def import_cast_like(node: OnnxNode) -> Primitive | Sequence[str]:
    like = node.type_of(1)
    if STRINGS not in (node.type_of(0), like):
        return CastLike(*cast_rules(node))
    if like is None:
        raise node.unsupported("the element type that strings are to become is not known")
    return node.emit(StringCast(None if like == STRINGS else DType.of(numpy_type(like))), node.inputs[0])
