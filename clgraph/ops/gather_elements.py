"""Elements picked one by one along an axis: ONNX's GatherElements."""

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
from clgraph.selector.general import General, launch, moved_jit, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class GatherElements(Primitive):
    """``y[i, j] = x[indices[i, j], j]`` for *axis* 0, and so on; a negative index counts from the back."""

    axis: int = 0

    kind: ClassVar[str] = "gather_elements"
    holds_sizes: ClassVar[bool] = False

    @property
    def picks(self) -> tuple[tuple[int, int, int], ...]:
        return ((0, 1, self.axis),)

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(GatherElements(positive_axis(self.axis, inputs[0].rank)), (0, 1))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, indices = inputs
        sizes = zip(x.shape, indices.shape, strict=False)
        fits = x.rank == indices.rank and all(n <= d for a, (d, n) in enumerate(sizes) if a != self.axis)
        if indices.dtype not in (DType.I32, DType.I64) or not fits:
            raise ShapeError(f"indices {indices} do not pick from {x} along axis {self.axis}")
        return (x.with_shape(indices.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, indices = inputs
        size = x.shape[self.axis]
        part = x[tuple(slice(None) if a == self.axis else slice(n) for a, n in enumerate(indices.shape))]
        places = np.clip(np.where(indices < 0, indices + size, indices), 0, max(size - 1, 0))
        return (np.take_along_axis(part, places, self.axis),)


@onnx("GatherElements", since=(11, 13))
def import_gather_elements(node: OnnxNode) -> Primitive:
    return GatherElements(node.attribute("axis", 0))


@implements(
    GatherElements, name="gather_elements.ref", serves=Serves(dtypes=frozenset(DType), mixed=True), general=True
)
class GatherElementsRef(General[GatherElements]):
    """One work-item an element, any rank."""

    @classmethod
    def plan(cls, q: Query[GatherElements]) -> Plan:
        (x, indices), (y,), axis = q.own, q.outputs, q.primitive.axis
        still = View(x.origin, tuple(0 if a == axis else p for a, p in enumerate(x.all_pitches)))
        s = space(y.shape, [View.of(y), still, View.of(indices)])
        jit = moved_jit(y.dtype.itemsize, len(s.dims)).define(INDEX=indices.dtype)
        numbers = table(s.dims, *s.views, [x.shape[axis], x.all_pitches[axis]])
        return Plan((launch("gather/gather_ref", jit, s.counts[0], "in0", "in1", "out0", numbers),))
