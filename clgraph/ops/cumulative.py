"""Running results along an axis: what sums and products have in common, their general implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Self, TypeVar

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known_ints, positive_axis
from clgraph.graph.importing import OnnxNode
from clgraph.graph.primitive import Array, Bound, Primitive
from clgraph.selector.general import General, float_jit, launch, table
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


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


C = TypeVar("C", bound=Cumulative)


class CumulativeRef(General[C]):
    """One work-item a line, any rank.

    Attributes:
        product: Whether products are made, not sums.
    """

    product: ClassVar[bool] = False

    @classmethod
    def plan(cls, q: Query[C]) -> Plan:
        x, (y,), f = q.inputs[0], q.outputs, q.primitive
        axis = f.axis or 0
        others = [a for a in range(x.rank) if a != axis]
        size, sign = x.shape[axis], -1 if f.reverse else 1
        last = (size - 1) if f.reverse else 0
        views = [View(v.origin + last * v.all_pitches[axis], tuple(v.all_pitches[a] for a in others)) for v in (y, x)]
        s = space(tuple(x.shape[a] for a in others), views)
        jit = float_jit(x.dtype, len(s.dims))
        if not x.dtype.floating:
            jit = jit.define(T=x.dtype, V=x.dtype)
        rest = [size, sign * y.all_pitches[axis], sign * x.all_pitches[axis], int(f.exclusive), int(cls.product)]
        numbers = table(s.dims, *s.views, rest)
        rows = s.counts[0] if size else 0
        return Plan((launch("cumulative_sum/cumulative_sum_ref", jit, rows, "in0", "out0", numbers),))
