"""Running results along an axis: what sums and products have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known_ints, positive_axis
from clgraph.graph.importing import OnnxNode
from clgraph.graph.primitive import Array, Bound, Primitive


@frozen
class Cumulative(Primitive):
    """``y[i]`` of ``x[0] … x[i]`` along *axis*; without x[i] when *exclusive*, from the end when *reverse*.

    Attributes:
        axis: ``None`` before ``bind``: the value of input 1.
    """

    axis: int | None = None
    exclusive: bool = False
    reverse: bool = False

    @classmethod
    def of(cls, node: OnnxNode) -> Self:
        """Return the primitive of an ONNX node."""
        return cls(None, bool(node.attribute("exclusive", 0)), bool(node.attribute("reverse", 0)))

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        axis = known_ints(values, 1, "axis")[0] if self.axis is None else self.axis
        if not inputs[0].rank:
            raise ShapeError("a scalar has no axis to go along")
        return Bound(replace(self, axis=positive_axis(axis, inputs[0].rank)), (0,))

    def value_slots(self) -> tuple[int, ...]:
        return (1,) if self.axis is None else ()

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (inputs[0].plain(),)
