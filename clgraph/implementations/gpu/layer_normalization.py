"""Layer normalisation for GPUs: a group of work-items a row."""

from __future__ import annotations

from clgraph.core.layout import Layout
from clgraph.graph.attributes import positive_axis
from clgraph.implementations.gpu.rows import ROWS, SUBGROUPS, RowKernel, launch_rows
from clgraph.ops.layer_normalization import LayerNormalization, over_result
from clgraph.selector.general import post_views, table
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import Space, View, space


@implements(LayerNormalization, name="layer_normalization.gpu_rows", serves=ROWS)
class LayerNormalizationGpuRows(RowKernel[LayerNormalization]):
    """A group of 64 or 256 work-items a row."""

    @classmethod
    def rows(cls, q: Query[LayerNormalization]) -> Space:
        (y,), f = q.outputs, q.primitive
        axis = positive_axis(f.axis, y.rank)
        bias: Layout | None = q.own[2] if q.arity > 2 else None
        views = [View.of(y), View.of(q.inputs[0]), over_result(q, q.own[1]), over_result(q, bias), *post_views(q)]
        return space(y.shape, views, [range(axis), range(axis, y.rank)])

    @classmethod
    def plan(cls, q: Query[LayerNormalization]) -> Plan:
        s, biased = cls.rows(q), q.arity > 2
        numbers = table(s.dims, *s.views[:4], int(biased), int(q.primitive.centred))
        arguments = ("in0", "in1", "in2" if biased else "null", "out0", numbers, q.primitive.epsilon)
        return launch_rows(cls, q, "layer_normalization/layer_normalization_gpu_rows", s, arguments, s.views[4:])


@implements(LayerNormalization, name="layer_normalization.gpu_subgroups", serves=SUBGROUPS)
class LayerNormalizationGpuSubgroups(LayerNormalizationGpuRows):
    """A group of 64 or 256 work-items a row, summed by sub-groups: Intel's where there are, else Khronos'."""

    subgroups = True
