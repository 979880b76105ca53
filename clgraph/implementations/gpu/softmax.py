"""Softmax for GPUs: a group of work-items a row."""

from __future__ import annotations

from clgraph.graph.attributes import positive_axes
from clgraph.implementations.gpu.rows import ROWS, SUBGROUPS, RowKernel, launch_rows
from clgraph.ops.softmax import Softmax
from clgraph.selector.general import post_views, table
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import Space, View, space


@implements(Softmax, name="softmax.gpu_rows", serves=ROWS)
class SoftmaxGpuRows(RowKernel[Softmax]):
    """A group of 64 or 256 work-items a row."""

    @classmethod
    def rows(cls, q: Query[Softmax]) -> Space:
        x, (y,) = q.inputs[0], q.outputs
        axes = positive_axes(q.primitive.axes, x.rank)
        kept = [a for a in range(x.rank) if a not in axes]
        return space(y.shape, [View.of(y), View.of(x), *post_views(q)], [kept, axes])

    @classmethod
    def plan(cls, q: Query[Softmax]) -> Plan:
        s = cls.rows(q)
        numbers = table(s.dims, *s.views[:2], int(q.primitive.log))
        return launch_rows(cls, q, "softmax/softmax_gpu_rows", s, ("in0", "out0", numbers), s.views[2:])


@implements(Softmax, name="softmax.gpu_subgroups", serves=SUBGROUPS)
class SoftmaxGpuSubgroups(SoftmaxGpuRows):
    """A group of 64 or 256 work-items a row, summed by sub-groups: Intel's where there are, else Khronos'."""

    subgroups = True
