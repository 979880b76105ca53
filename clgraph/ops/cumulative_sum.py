"""Running sums along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Permuted, Primitive, primitive
from clgraph.ops.cumulative import Cumulative
from clgraph.selector.general import INTEGERS, REALS, General, View, float_jit, launch, space, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


@primitive
@frozen
class CumulativeSum(Cumulative):
    """``y[i] = x[0] + … + x[i]``, and so on as :class:`Cumulative` says."""

    kind: ClassVar[str] = "cumulative_sum"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        axis = self.axis or 0
        exact = np.result_type(x.dtype, np.float32) if x.dtype.kind == "f" else x.dtype
        turned = np.flip(x, axis) if self.reverse else x
        total = np.cumsum(turned, axis, dtype=exact)
        total = total - turned if self.exclusive else total
        return (np.ascontiguousarray(np.flip(total, axis) if self.reverse else total).astype(x.dtype),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(replace(self, axis=axes[self.axis or 0]), axes, 1)


@onnx("CumSum", since=(11, 14))
def import_cumsum(node: OnnxNode) -> Primitive:
    return CumulativeSum.of(node)


@implements(CumulativeSum, name="cumulative_sum.ref", serves=Serves(dtypes=REALS | INTEGERS), general=True)
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
