"""Slices picked along an axis by indices that are data."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes, without
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive, primitive
from clgraph.selector.general import WIDEST, General, launch, moved_jit, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import Space, View, in_vectors, lanes_of, space


@primitive
@frozen
class Gather(Primitive):
    """``y[a…, i…, b…] = x[a…, indices[i…], b…]`` with *axis* where the indices stand.

    A negative index counts from the back, one outside of the axis reads its nearest end.
    """

    axis: int = 0

    kind: ClassVar[str] = "gather"
    holds_sizes: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = True

    @property
    def picks(self) -> tuple[tuple[int, int, int], ...]:
        return ((0, 1, self.axis),)

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(Gather(positive_axis(self.axis, inputs[0].rank)), (0, 1))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, indices = inputs
        if indices.dtype not in (DType.I32, DType.I64) or not x.rank:
            raise ShapeError(f"gather requires x of rank 1 or more and i32 or i64 indices, not {x} and {indices.dtype}")
        axis = positive_axis(self.axis, x.rank)
        return (x.with_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, indices = inputs
        size = x.shape[self.axis]
        places = np.where(indices < 0, indices + size, indices)
        if x.flags.aligned:
            return (np.take(x, places, self.axis, mode="clip"),)
        # Of a table in a mapped file, whose elements may start anywhere, take would copy all before it picks.
        places = np.clip(places, 0, size - 1)
        return (np.asarray(x[(slice(None),) * positive_axis(self.axis, x.ndim) + (places,)], order="C"),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        if len(axes) != inputs[0].rank or inputs[1].rank > 1:
            return None
        made = axes if inputs[1].rank else without(axes, (self.axis,))
        return Permuted(Gather(axes[self.axis]), (axes, None), (made,))


@onnx("Gather", since=(1, 11, 13))
def import_gather(node: OnnxNode) -> Primitive:
    return Gather(node.attribute("axis", 0))


@implements(Gather, name="gather.ref", serves=Serves(dtypes=frozenset(DType), mixed=True), general=True)
class GatherRef(General[Gather]):
    """One work-item an element, any rank; of what lies behind one another in x and y, up to 16 bytes."""

    @classmethod
    def cost(cls, q: Query[Gather]) -> float:
        # Of x only what is picked is read.
        traffic = 2 * q.outputs[0].nbytes + q.inputs[1].nbytes
        return q.device.launch_seconds + traffic / (q.device.bytes_per_second * q.device.costs.general_traffic)

    @classmethod
    def plan(cls, q: Query[Gather]) -> Plan:
        (x, indices), (y,), axis = q.own, q.outputs, q.primitive.axis
        still, moved = (0,) * indices.rank, (0,) * (x.rank - axis - 1)
        source = View(x.origin, (*x.all_pitches[:axis], *still, *x.all_pitches[axis + 1 :]))
        picked = View(indices.origin, ((0,) * axis + indices.all_pitches + moved))
        s = space(y.shape, [View.of(y), source, picked])
        found, pitch = s.views[2], x.all_pitches[axis]
        whole = found.pitches[-1] == 0
        lanes = gcd(lanes_of(s.dims, s.views[:2], WIDEST // y.dtype.itemsize), pitch) if whole else 1
        s = in_vectors(Space(s.dims, s.groups, s.views[:2]), lanes)
        jit = moved_jit(lanes * y.dtype.itemsize, len(s.dims)).define(INDEX=indices.dtype)
        numbers = table(s.dims, *s.views, found, [x.shape[axis], pitch // lanes])
        return Plan((launch("gather/gather_ref", jit, s.counts[0], "in0", "in1", "out0", numbers),))
