"""The same tensor in another memory format or element type; the primitive that passes insert between formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.layout import Halo, Layout
from clgraph.graph.primitive import Array, OnnxNode, Primitive, onnx, primitive


@primitive
@dataclass(frozen=True, slots=True)
class Reorder(Primitive):
    """``y = x`` with another element type, format or halo. Float to integer rounds towards zero, as ONNX Cast does.

    Attributes:
        dtype, format, halo: Those of the result; ``format`` is ``None`` for plain.
    """

    dtype: DType
    format: Format | None = None
    halo: Halo = ()

    kind: ClassVar[str] = "reorder"

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        return (Layout(self.dtype, x.shape, self.format or Format.plain(x.rank), self.halo),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].astype(self.dtype.numpy),)


@onnx("Cast", since=(6, 9, 13, 19, 21, 23, 24, 25, 28))
def import_cast(node: OnnxNode) -> Primitive:
    return Reorder(node.attribute("to", DType.F32))
