"""Differences of neighbours along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive, primitive
from clgraph.selector.general import (
    FLOATS,
    General,
    float_jit,
    launch,
    post_arguments,
    post_views,
    table,
)
from clgraph.selector.views import View, space
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query


@primitive
@frozen
class Difference(Primitive):
    """``y[i] = x[i] - x[i - 1]`` along *axis*, and ``y[0] = x[0]``.

    Attributes:
        axis: Before ``bind`` it may be negative.
    """

    axis: int

    kind: ClassVar[str] = "difference"
    holds_sizes: ClassVar[bool] = False

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(Difference(positive_axis(self.axis, inputs[0].rank)), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if not x.dtype.floating:
            raise ShapeError(f"difference needs a floating type, not {x.dtype}")
        return (x.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (np.diff(x, axis=self.axis, prepend=0).astype(x.dtype),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(Difference(axes[self.axis]), axes, 1)


@onnx("Difference", since=(1,), domain="com.acme")
def import_difference(node: OnnxNode) -> Primitive:
    return Difference(node.attribute("axis", -1))


@implements(Difference, name="difference.ref", serves=Serves(dtypes=FLOATS, fuses=FUSABLE), general=True)
class DifferenceRef(General[Difference]):
    """One work-item an element, any rank."""

    @classmethod
    def plan(cls, q: Query[Difference]) -> Plan:
        x, (y,), axis = q.inputs[0], q.outputs, q.primitive.axis
        others = [a for a in range(x.rank) if a != axis]
        s = space(y.shape, [View.of(y), View.of(x), *post_views(q)], [others, [axis]])
        posts = post_arguments(q, s.views[2:], len(s.dims))
        numbers = table(s.dims, *s.views[:2])
        jit = float_jit(y.dtype, len(s.dims))
        return Plan((launch("difference/difference_ref", jit, y.count, "in0", "out0", numbers, *posts),))
