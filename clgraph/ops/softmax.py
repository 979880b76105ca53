"""Softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axes, positive_axis
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive, primitive
from clgraph.selector.general import (
    REALS,
    General,
    float_jit,
    launch,
    post_arguments,
    post_views,
    table,
)
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class Softmax(Primitive):
    """``y = exp(x) / sum(exp(x))`` over *axes*, computed on x minus its maximum; the logarithm of it with *log*.

    Attributes:
        axes: Before ``bind`` they may be negative.
        flatten: Before ``bind``: every axis from the only one in *axes* on, as ONNX before opset 13 says.
    """

    axes: tuple[int, ...]
    log: bool = False
    flatten: bool = False

    kind: ClassVar[str] = "softmax"
    holds_sizes: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = True

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        rank = inputs[0].rank
        axes = positive_axes(self.axes, rank)
        if self.flatten:
            axes = tuple(range(positive_axis(self.axes[0], rank), rank))
        return Bound(Softmax(axes, self.log), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if not x.dtype.floating:
            raise ShapeError(f"softmax requires a floating type, not {x.dtype}")
        positive_axes(self.axes, x.rank)
        return (x.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        axes = positive_axes(self.axes, x.ndim)
        exact = x.astype(np.result_type(x.dtype, np.float32))
        if not x.size:
            return (x,)
        shifted = exact - exact.max(axes, keepdims=True)
        total = np.exp(shifted).sum(axes, keepdims=True)
        return ((shifted - np.log(total) if self.log else np.exp(shifted) / total).astype(x.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 20.0 * outputs[0].count

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(Softmax(tuple(sorted(axes[a] for a in self.axes)), self.log), axes, 1)


@onnx("Softmax", since=(1, 11, 13))
@onnx("LogSoftmax", since=(1, 11, 13))
def import_softmax(node: OnnxNode) -> Primitive:
    old = node.since < 13
    return Softmax((node.attribute("axis", 1 if old else -1),), node.op_type == "LogSoftmax", flatten=old)


@implements(Softmax, name="softmax.ref", serves=Serves(dtypes=REALS, fuses=FUSABLE), general=True)
class SoftmaxRef(General[Softmax]):
    """One work-item a row, any rank, any axes."""

    @classmethod
    def plan(cls, q: Query[Softmax]) -> Plan:
        x, (y,) = q.inputs[0], q.outputs
        axes = positive_axes(q.primitive.axes, x.rank)
        kept = [a for a in range(x.rank) if a not in axes]
        s = space(y.shape, [View.of(y), View.of(x), *post_views(q)], [kept, axes])
        rows, count = s.counts
        numbers = table(s.dims, *s.views[:2], [s.groups[0], count, int(q.primitive.log)])
        posts = post_arguments(q, s.views[2:], len(s.dims))
        jit = float_jit(y.dtype, len(s.dims))
        return Plan((launch("softmax/softmax_ref", jit, rows if count else 0, "in0", "out0", numbers, *posts),))
