"""Slices picked by rows of coordinates: ONNX's GatherND."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import ShapeError
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import General, bits_jit, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class GatherND(Primitive):
    """``y[b…, i…] = x[b…, indices[b…, i…, 0], indices[b…, i…, 1], …]``; *batch* axes in front are common.

    A negative coordinate counts from the back, one outside of its axis reads the nearest end. A place without
    coordinates is all that is behind the *batch* axes, as in ONNX Runtime.
    """

    batch: int = 0

    kind: ClassVar[str] = "gather_nd"
    holds_sizes: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, indices = inputs
        if indices.dtype not in (DType.I32, DType.I64):
            raise ShapeError(f"indices are i32 or i64, not {indices.dtype}")
        depth = self._depth(x.shape, indices.shape)
        return (x.with_shape((*indices.shape[:-1], *x.shape[self.batch + depth :])),)

    def _depth(self, x: Shape, indices: Shape) -> int:
        """Return how many coordinates a place has; raises ``ShapeError`` where the two do not fit."""
        depth = indices[-1] if indices else 0
        fits = x and len(indices) > self.batch and x[: self.batch] == indices[: self.batch]
        if not fits or not 0 <= depth <= len(x) - self.batch:
            raise ShapeError(f"indices {list(indices)} do not pick from {list(x)} with {self.batch} batch axes")
        return depth

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, indices = inputs
        depth, shape = self._depth(x.shape, indices.shape), x.shape[self.batch :]
        more = (1,) * (indices.ndim - 1 - self.batch)
        if not depth:
            each = x.reshape(*x.shape[: self.batch], *more, *shape)
            return (np.broadcast_to(each, (*indices.shape[:-1], *shape)).copy(),)
        sizes = np.array(shape[:depth])
        places = np.clip(np.where(indices < 0, indices + sizes, indices), 0, sizes - 1)
        lead: tuple[Array, ...] = np.indices(indices.shape[: self.batch], sparse=True)
        front = tuple(axis.reshape(*axis.shape, *more) for axis in lead)
        return (x[(*front, *np.moveaxis(places, -1, 0))],)


@onnx("GatherND", since=(1,), domain=MICROSOFT)
@onnx("GatherND", since=(11, 12, 13))
def import_gather_nd(node: OnnxNode) -> Primitive:
    return GatherND(node.attribute("batch_dims", 0))


@implements(GatherND, name="gather_nd.ref", serves=Serves(dtypes=frozenset(DType), mixed=True), general=True)
class GatherNDRef(General[GatherND]):
    """One work-item an element, any rank."""

    @classmethod
    def plan(cls, q: Query[GatherND]) -> Plan:
        (x, indices), (y,), batch = q.own, q.outputs, q.primitive.batch
        depth, picked = indices.shape[-1], indices.rank - 1
        pitches, last = x.all_pitches, indices.all_pitches[-1]
        still = View(x.origin, (*pitches[:batch], *(0,) * (picked - batch), *pitches[batch + depth :]))
        rows = View(indices.origin, (*indices.all_pitches[:-1], *(0,) * (y.rank - picked)))
        s = space(y.shape, [View.of(y), still, rows])
        axes = [n for a in range(batch, batch + depth) for n in (x.shape[a], pitches[a])]
        jit = bits_jit(y.dtype.itemsize, len(s.dims)).define(INDEX=indices.dtype)
        numbers = table(s.dims, *s.views, [depth, last, *axes])
        return Plan((launch("gather_nd/gather_nd_ref", jit, s.counts[0], "in0", "in1", "out0", numbers),))
