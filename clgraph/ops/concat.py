"""Tensors one behind the other along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive, primitive
from clgraph.selector.general import General, move
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View


@primitive
@frozen
class Concat(Primitive):
    """``y`` holds the inputs one behind the other along *axis*; their other sizes are equal."""

    axis: int

    kind: ClassVar[str] = "concat"
    holds_sizes: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = True

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(Concat(positive_axis(self.axis, inputs[0].rank)), tuple(range(len(inputs))))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        first, axis = inputs[0], positive_axis(self.axis, inputs[0].rank)
        if not first.rank:
            raise ShapeError("scalars have no axis to be joined along")
        for other in inputs[1:]:
            if (
                other.rank != first.rank
                or other.dtype != first.dtype
                or any(a != b for i, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)) if i != axis)
            ):
                raise ShapeError(f"{other} does not fit {first} along axis {axis}")
        total = sum(x.shape[axis] for x in inputs)
        return (first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :])),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.concatenate(inputs, self.axis),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(Concat(axes[self.axis]), axes, len(inputs))


@onnx("Concat", since=(1, 4, 11, 13))
def import_concat(node: OnnxNode) -> Primitive:
    return Concat(node.attribute("axis", 1))


@implements(Concat, name="concat.ref", serves=Serves(dtypes=frozenset(DType), formats=True), general=True)
class ConcatRef(General[Concat]):
    """A copy of each input to its place."""

    orders = True

    @classmethod
    def plan(cls, q: Query[Concat]) -> Plan:
        (y,), axis = q.outputs, q.primitive.axis
        steps, start = [], y.origin
        for slot, x in enumerate(q.own):
            target = View(start, y.all_pitches)
            steps.append(move(x, (f"in{slot}", View.of(x)), ("out0", target), x.shape))
            start += x.shape[axis] * y.all_pitches[axis]
        return Plan(tuple(steps))
