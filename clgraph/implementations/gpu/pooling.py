"""Pooling for GPUs on channels in vectors."""

from __future__ import annotations

from math import prod

from clgraph.implementations.gpu.vectors import (
    VECTORS,
    channels_refusal,
    lanes_of_channels,
    same_format,
    vector_formats,
    vector_jit,
    wide,
    wide_view,
)
from clgraph.ops.pooling import Pooling
from clgraph.selector.general import General, launch, post_arguments, table
from clgraph.selector.implementation import Formats, implements, roofline
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


@implements(Pooling, name="pooling.gpu_vectors", serves=VECTORS)
class PoolingGpuVectors(General[Pooling]):
    """A vector of channels of a pixel a work-item; byxf and b_fs_yx_fsv4, one or two spatial axes."""

    blocked = True

    @classmethod
    def further_limits(cls, q: Query[Pooling]) -> str | None:
        if q.inputs[0].rank > 4:
            return "has one or two spatial axes"
        return channels_refusal(q)

    @classmethod
    def formats(cls, q: Query[Pooling]) -> tuple[Formats, ...]:
        return same_format(q, vector_formats(q.outputs[0].rank))

    @classmethod
    def cost(cls, q: Query[Pooling]) -> float:
        return roofline(q, 0.1, 0.6)

    @classmethod
    def plan(cls, q: Query[Pooling]) -> Plan:
        x, (y,), f = q.inputs[0], q.outputs, q.primitive
        lanes = lanes_of_channels(x, y)
        dims = (y.shape[0], *wide(y.shape[2:], 1), y.shape[1] // lanes, 1)
        before, behind = zip(*f.pads, strict=True)
        numbers = table(
            *(dims, wide_view(y, y.shape, lanes), wide_view(x, x.shape, lanes)),
            *(wide(f.kernel, 1), [int(f.function == "average"), int(f.count_include_pad)]),
            *(wide(x.shape[2:], 1), wide(f.strides, 1), wide(f.dilations, 1), wide(before, 0), wide(behind, 0)),
        )
        views = [wide_view(q.inputs[p.operands[0]], y.shape, lanes) for p in q.post if p.operands]
        jit = vector_jit(y.dtype, len(dims), lanes)
        arguments = ("in0", "out0", numbers, *post_arguments(q, views, len(dims)))
        return Plan((launch("pooling/pooling_gpu_vectors", jit, prod(dims), *arguments),))
