"""A cache with updates written to it: ONNX's TensorScatter."""

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
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.ops.scatter import SERVES
from clgraph.selector.general import General, bits_jit, launch, move, table
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class TensorScatter(Primitive):
    """A cache with updates written along *axis* from each batch's place on; *circular* ones go on at the front.

    Inputs: cache ``[batch, ...]``, updates, and optionally the places ``[batch]``, else 0.
    """

    axis: int = -2
    circular: bool = False

    kind: ClassVar[str] = "tensor_scatter"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        axis = positive_axis(self.axis, inputs[0].rank)
        return Bound(TensorScatter(axis, self.circular), tuple(range(len(inputs))))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        cache, updates = inputs[:2]
        fits = cache.rank == updates.rank and cache.dtype == updates.dtype and self.axis > 0
        if not fits or any(
            n > d if a == self.axis else n != d for a, (d, n) in enumerate(zip(cache.shape, updates.shape, strict=True))
        ):
            raise ShapeError(f"updates {updates} do not go into {cache} along axis {self.axis}")
        if len(inputs) > 2 and inputs[2].shape != cache.shape[:1]:
            raise ShapeError(f"the places {inputs[2]} are not one for each of {cache.shape[0]} caches")
        return (cache.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        cache, updates = inputs[:2]
        y, (size, count) = cache.copy(), (a.shape[self.axis] for a in (cache, updates))
        starts = inputs[2] if len(inputs) > 2 else np.zeros(cache.shape[0], np.int64)
        for row, start in enumerate(starts):
            places = np.arange(count) + int(start)
            if not self.circular and (start < 0 or start + count > size):
                raise ShapeError(f"{count} updates from {start} on leave the {size} places of axis {self.axis}")
            window = [slice(None)] * (cache.ndim - 1)
            y[row][(*window[: self.axis - 1], places % size)] = updates[row]
        return (y,)


@onnx("TensorScatter", since=(24,))
def import_tensor_scatter(node: OnnxNode) -> Primitive:
    return TensorScatter(node.attribute("axis", -2), node.attribute("mode", "linear") == "circular")


@implements(TensorScatter, name="tensor_scatter.ref", serves=SERVES, general=True)
class TensorScatterRef(General[TensorScatter]):
    """A copy of the cache, then one work-item an element of the updates."""

    @classmethod
    def plan(cls, q: Query[TensorScatter]) -> Plan:
        (cache, updates, *starts), (y,), f = q.own, q.outputs, q.primitive
        copy = move(cache, ("in0", View.of(cache)), ("out0", View.of(y)), cache.shape)
        groups = [[0], range(1, f.axis), [f.axis], range(f.axis + 1, y.rank)]
        s = space(updates.shape, [View.of(y), View.of(updates)], groups)
        axis = sum(s.groups[:2])
        pitch = starts[0].all_pitches[0] if starts else -1
        numbers = table(s.dims, *s.views, [axis, y.shape[f.axis], y.all_pitches[f.axis], int(f.circular), pitch])
        jit = bits_jit(y.dtype.itemsize, len(s.dims)).define(INDEX=starts[0].dtype if starts else DType.I64)
        places = "in2" if starts else "null"
        args = ("in1", places, "out0", numbers)
        return Plan((copy, launch("tensor_scatter/tensor_scatter_ref", jit, updates.count, *args)))
