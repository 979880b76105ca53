"""A tensor with some slices replaced: ONNX's ScatterND."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.scatter import SERVES, check, limits, put, scattered
from clgraph.selector.general import General
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View


@primitive
@frozen
class ScatterND(Primitive):
    """x with ``y[indices[i…]] = updates[i…]``: the last axis of the indices holds coordinates of slices of x.

    Without coordinates, which ONNX Runtime allows, a slice is all of x.
    """

    reduction: str = "none"

    kind: ClassVar[str] = "scatter_nd"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, indices, updates = inputs
        check(x, indices, updates, self.reduction)
        fits = x.rank and indices.rank > 0 and indices.shape[-1] <= x.rank
        if not fits or updates.shape != (*indices.shape[:-1], *x.shape[indices.shape[-1] :]):
            raise ShapeError(f"updates {updates} at {indices} do not go into {x}")
        return (x.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, indices, updates = inputs
        if not indices.shape[-1]:
            zeros = np.zeros((*indices.shape[:-1], 1), indices.dtype)
            return (self.reference(x[None], zeros, updates)[0][0],)
        y = x.copy()
        sizes = np.array(x.shape[: indices.shape[-1]])
        places = np.where(indices < 0, indices + sizes, indices)
        put(y, tuple(np.moveaxis(places, -1, 0)), updates, self.reduction)
        return (y,)


@onnx("ScatterND", since=(11, 13, 16, 18))
def import_scatter_nd(node: OnnxNode) -> Primitive:
    return ScatterND(node.attribute("reduction", "none"))


@implements(ScatterND, name="scatter_nd.ref", serves=SERVES, general=True)
class ScatterNDRef(General[ScatterND]):
    """One work-item an element of the slices, so that updates of one element come in their order."""

    @classmethod
    def further_limits(cls, q: Query[ScatterND]) -> str | None:
        return limits(q)

    @classmethod
    def plan(cls, q: Query[ScatterND]) -> Plan:
        (_, indices, updates), (y,) = q.own, q.outputs
        depth, picked = indices.shape[-1], indices.rank - 1
        dims = y.shape[depth:]
        views = [
            View(y.origin, y.all_pitches[depth:]),
            View(updates.origin, updates.all_pitches[picked:]),
            View(indices.origin, (0,) * len(dims)),
        ]
        walked = zip(indices.shape[:-1], updates.all_pitches, indices.all_pitches, strict=False)
        line = list(walked) or [(1, 0, 0)]
        places = list(zip(y.shape[:depth], y.all_pitches, strict=False))
        return scattered(q, dims, views, line, places, indices.all_pitches[-1])
