"""A tensor with some elements replaced: ONNX's ScatterElements, and Scatter, as it was called before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.ops.scatter import SERVES, check, limits, put, scattered
from clgraph.selector.general import General
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View


@primitive
@frozen
class ScatterElements(Primitive):
    """x with ``y[indices[i, j], j] = updates[i, j]`` for *axis* 0, and so on; a negative index counts from the back."""

    axis: int = 0
    reduction: str = "none"

    kind: ClassVar[str] = "scatter_elements"
    holds_sizes: ClassVar[bool] = False

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(ScatterElements(positive_axis(self.axis, inputs[0].rank), self.reduction), (0, 1, 2))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, indices, updates = inputs
        check(x, indices, updates, self.reduction)
        if not x.rank == indices.rank or indices.shape != updates.shape:
            raise ShapeError(f"updates {updates} at {indices} do not go into {x}")
        return (x.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, indices, updates = inputs
        y = x.copy()
        places: list[Any] = list(np.indices(indices.shape, sparse=True))
        places[self.axis] = np.where(indices < 0, indices + x.shape[self.axis], indices)
        put(y, tuple(places), updates, self.reduction)
        return (y,)


@onnx("Scatter", since=(9,))
@onnx("ScatterElements", since=(11, 13, 16, 18))
def import_scatter_elements(node: OnnxNode) -> Primitive:
    return ScatterElements(node.attribute("axis", 0), node.attribute("reduction", "none"))


def _without(layout: Layout, axis: int) -> View:
    pitches = layout.all_pitches
    return View(layout.origin, (*pitches[:axis], *pitches[axis + 1 :]))


@implements(ScatterElements, name="scatter_elements.ref", serves=SERVES, general=True)
class ScatterElementsRef(General[ScatterElements]):
    """One work-item a line along the axis, so that updates of one element come in their order."""

    @classmethod
    def further_limits(cls, q: Query[ScatterElements]) -> str | None:
        return limits(q)

    @classmethod
    def plan(cls, q: Query[ScatterElements]) -> Plan:
        (_, indices, updates), (y,), axis = q.own, q.outputs, q.primitive.axis
        dims = (*indices.shape[:axis], *indices.shape[axis + 1 :])
        views = [_without(v, axis) for v in (y, updates, indices)]
        line = [(indices.shape[axis], updates.all_pitches[axis], indices.all_pitches[axis])]
        return scattered(q, dims, views, line, [(y.shape[axis], y.all_pitches[axis])], 0)
