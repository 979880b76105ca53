"""Slices that a condition keeps: ONNX's Compress."""

from __future__ import annotations

from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.graph.attributes import positive_axis
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, DataDependent, Primitive, primitive


@primitive
@frozen
class Compress(DataDependent):
    """The slices of x along *axis*, or without one its elements in a row, where input 1, bools, is true.

    The specification has the condition one-dimensional; of another rank, as Paddle2ONNX writes that of a mask, its
    elements count in a row, as in ONNX Runtime, which passes over those of a condition that is too long.
    """

    axis: int | None = None

    kind: ClassVar[str] = "compress"
    warns: ClassVar[bool] = False

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, condition = inputs
        size = x.size if self.axis is None else x.shape[positive_axis(self.axis, x.ndim)]
        kept = condition if condition.ndim == 1 else condition.reshape(-1)
        return (x.compress(kept if kept.size <= size else kept[:size], self.axis),)


@onnx("Compress", since=(9, 11, 28))
def import_compress(node: OnnxNode) -> Primitive:
    return Compress(node.attribute("axis", None))
