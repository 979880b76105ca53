"""Running sums along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known_ints, positive_axis
from clgraph.graph.permute import Axes, Permuted, along
from clgraph.graph.primitive import Array, Bound, OnnxNode, Primitive, onnx, primitive
from clgraph.selector.general import FLOATS, INTEGERS, General, View, float_jit, launch, space, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


@primitive
@dataclass(frozen=True, slots=True)
class CumulativeSum(Primitive):
    """``y[i] = x[0] + … + x[i]`` along *axis*; without x[i] when *exclusive*, from the end when *reverse*.

    Attributes:
        axis: ``None`` before ``bind``: the value of input 1.
    """

    axis: int | None = None
    exclusive: bool = False
    reverse: bool = False

    kind: ClassVar[str] = "cumulative_sum"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        axis = known_ints(values, 1, "axis")[0] if self.axis is None else self.axis
        if not inputs[0].rank:
            raise ShapeError("a scalar has no axis to add up along")
        return Bound(replace(self, axis=positive_axis(axis, inputs[0].rank)), (0,))

    def value_slots(self) -> tuple[int, ...]:
        return (1,) if self.axis is None else ()

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (inputs[0].plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        axis = self.axis or 0
        exact = np.result_type(x.dtype, np.float32) if x.dtype.kind == "f" else x.dtype
        turned = np.flip(x, axis) if self.reverse else x
        total = np.cumsum(turned, axis, dtype=exact)
        total = total - turned if self.exclusive else total
        return (np.ascontiguousarray(np.flip(total, axis) if self.reverse else total).astype(x.dtype),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return along(replace(self, axis=axes[self.axis or 0]), axes, 1)


@onnx("CumSum", since=(11, 14))
def import_cumsum(node: OnnxNode) -> Primitive:
    return CumulativeSum(None, bool(node.attribute("exclusive", 0)), bool(node.attribute("reverse", 0)))


@implements(CumulativeSum, name="cumulative_sum.ref", serves=Serves(dtypes=FLOATS | INTEGERS), general=True)
class CumulativeSumRef(General[CumulativeSum]):
    """One work-item a line, any rank."""

    @classmethod
    def plan(cls, q: Query[CumulativeSum]) -> Plan:
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
        rest = [size, sign * y.all_pitches[axis], sign * x.all_pitches[axis], int(f.exclusive)]
        numbers = table(s.dims, *s.views, rest)
        rows = s.counts[0] if size else 0
        return Plan((launch("cumulative_sum/cumulative_sum_ref", jit, rows, "in0", "out0", numbers),))
