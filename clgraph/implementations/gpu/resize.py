"""Interpolation for GPUs on channels in vectors."""

from __future__ import annotations

from math import prod

import numpy as np

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
from clgraph.ops.resize import Resize
from clgraph.ops.resize_taps import Taps, tap_values
from clgraph.selector.general import General, launch, post_arguments, table
from clgraph.selector.implementation import Formats, implements, roofline
from clgraph.selector.plan import Plan, Table
from clgraph.selector.query import Query

_ONE = Taps(np.zeros((1, 1), np.int64), np.ones((1, 1)))


@implements(Resize, name="resize.gpu_vectors", serves=VECTORS)
class ResizeGpuVectors(General[Resize]):
    """A vector of channels of a pixel a work-item; byxf and b_fs_yx_fsv4, one or two spatial axes."""

    blocked = True

    @classmethod
    def further_limits(cls, q: Query[Resize]) -> str | None:
        x, (y,) = q.inputs[0], q.outputs
        if not 3 <= x.rank <= 4 or x.shape[:2] != y.shape[:2]:
            return "resizes one or two spatial axes"
        if not all(q.primitive.keeps(axis, x.shape[axis]) for axis in (0, 1)):
            return "leaves images and channels as they are"
        return channels_refusal(q)

    @classmethod
    def formats(cls, q: Query[Resize]) -> tuple[Formats, ...]:
        return same_format(q, vector_formats(q.outputs[0].rank))

    @classmethod
    def cost(cls, q: Query[Resize]) -> float:
        return roofline(q, 0.1, 0.6)

    @classmethod
    def plan(cls, q: Query[Resize]) -> Plan:
        x, (y,) = q.inputs[0], q.outputs
        lanes = lanes_of_channels(x, y)
        dims = (y.shape[0], *wide(y.shape[2:], 1), y.shape[1] // lanes, 1)
        found = [q.primitive.taps(axis, x.shape[axis]) for axis in range(2, x.rank)]
        rows, columns = [_ONE, *found] if x.rank == 3 else found
        (down, first), (across, second) = tap_values(rows), tap_values(columns)
        numbers = table(dims, wide_view(y, y.shape, lanes), wide_view(x, x.shape, lanes), [down, across], len(first))
        views = [wide_view(q.inputs[p.operands[0]], y.shape, lanes) for p in q.post if p.operands]
        jit = vector_jit(y.dtype, len(dims), lanes)
        arguments = ("in0", "out0", numbers, Table((*first, *second)), *post_arguments(q, views, len(dims)))
        return Plan((launch("resize/resize_gpu_vectors", jit, prod(dims), *arguments),))
