"""Index of the largest or smallest element along an axis: ONNX's ArgMax and ArgMin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from clgraph.ops.reduce import reduced_shape
from clgraph.selector.general import INTEGERS, REALS, General, float_jit, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class ArgExtremum(Primitive):
    """The int64 index of the largest (or smallest) element along *axis*: of equal ones the first, or the last."""

    smallest: bool = False
    axis: int = 0
    keepdims: bool = True
    last: bool = False

    kind: ClassVar[str] = "arg"
    holds_sizes: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = True

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(replace(self, axis=positive_axis(self.axis, inputs[0].rank)), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        axis = positive_axis(self.axis, x.rank)
        y = Layout(DType.I64, reduced_shape(x.shape, (axis,), keepdims=self.keepdims))
        if not x.rank or (x.shape[axis] == 0 and y.count):
            raise ShapeError(f"{list(x.shape)} has no element along axis {axis}")
        return (y,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if not x.size:
            return (np.zeros(reduced_shape(x.shape, (self.axis,), keepdims=self.keepdims), np.int64),)
        pick = np.argmin if self.smallest else np.argmax
        turned = np.flip(x, self.axis) if self.last else x
        at = pick(turned, axis=self.axis, keepdims=self.keepdims)
        return (np.asarray(x.shape[self.axis] - 1 - at if self.last else at, np.int64),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return float(inputs[0].count)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        turned = replace(self, axis=axes[self.axis])
        return Permuted(turned, (axes,), (axes if self.keepdims else without(axes, (self.axis,)),))


@onnx("ArgMax", since=(1, 11, 12, 13))
@onnx("ArgMin", since=(1, 11, 12, 13))
def import_arg(node: OnnxNode) -> Primitive:
    last = bool(node.attribute("select_last_index", 0))
    keepdims = bool(node.attribute("keepdims", 1))
    return ArgExtremum(node.op_type == "ArgMin", node.attribute("axis", 0), keepdims, last)


@implements(ArgExtremum, name="arg.ref", serves=Serves(dtypes=REALS | INTEGERS, mixed=True), general=True)
class ArgRef(General[ArgExtremum]):
    """One work-item a result, any rank."""

    @classmethod
    def plan(cls, q: Query[ArgExtremum]) -> Plan:
        x, (y,), f = q.inputs[0], q.outputs, q.primitive
        others = [a for a in range(x.rank) if a != f.axis]
        result = dict(zip(range(x.rank) if f.keepdims else others, y.all_pitches, strict=True))
        views = [View(y.origin, tuple(result[a] for a in others))]
        views.append(View(x.origin, tuple(x.all_pitches[a] for a in others)))
        s = space(tuple(x.shape[a] for a in others), views)
        jit = float_jit(x.dtype, len(s.dims))
        if not x.dtype.floating:
            jit = jit.define(T=x.dtype, V=x.dtype)
        rest = [x.shape[f.axis], x.all_pitches[f.axis], int(f.smallest), int(f.last)]
        return Plan((launch("arg/arg_ref", jit, s.counts[0], "in0", "out0", table(s.dims, *s.views, rest)),))
