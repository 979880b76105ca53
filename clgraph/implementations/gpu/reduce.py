"""Sums and extrema over the pixels of each channel for GPUs, on channels in vectors."""

from __future__ import annotations

from clgraph.core.format import Format
from clgraph.core.layout import Layout, Shape
from clgraph.implementations.gpu.vectors import (
    LANES,
    VECTORS,
    is_vector_format,
    lanes_of_channels,
    lies_in_vectors,
    vector_jit,
    vector_view,
    wide_view,
)
from clgraph.implementations.gpu.vectors import vector_formats as formats_of
from clgraph.ops.reduce import CODES, Reduce
from clgraph.selector.general import General, post_arguments, table
from clgraph.selector.implementation import Formats, implements, roofline
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View

FUNCTIONS = ("sum", "mean", "max", "min")
GROUP = 64
"""Work-items of a group."""
VECTORS_A_GROUP = 16


@implements(Reduce, name="reduce.gpu_vectors", serves=VECTORS)
class ReduceGpuVectors(General[Reduce]):
    """A group of 64 work-items for 16 vectors of channels; byxf and b_fs_yx_fsv4, one or two spatial axes."""

    blocked = True

    @classmethod
    def further_limits(cls, q: Query[Reduce]) -> str | None:
        x, (y,), f = q.inputs[0], q.outputs, q.primitive
        if x.rank not in (3, 4) or f.reduced(x.rank) != tuple(range(2, x.rank)) or f.function not in FUNCTIONS:
            return f"makes the {', '.join(FUNCTIONS)} over one or two spatial axes"
        if not is_vector_format(x):
            return "requires channels in vectors"
        if odd := [v for v in (y, *q.inputs[1:]) if v.format.blocks and v.format != x.format]:
            return f"reads and writes {odd[0].format} only where it is the input's format"
        result = _channel_view(y, y.shape)
        if result.pitches[2] != 1 or any(p % LANES for p in (result.origin, *result.pitches[:2])):
            return "requires channels of the result behind one another"
        return lies_in_vectors(x)

    @classmethod
    def formats(cls, q: Query[Reduce]) -> tuple[Formats, ...]:
        x, (y,) = q.inputs[0], q.outputs
        rest: tuple[None, ...] = (None,) * (len(q.inputs) - 1)
        plain = Format.plain(y.rank)
        return tuple(
            Formats((f, *rest), (result,))
            for f in formats_of(x.rank)
            for result in ((f, plain) if y.rank == x.rank else (plain,))
        )

    @classmethod
    def cost(cls, q: Query[Reduce]) -> float:
        return roofline(q, 0.1, 0.6)

    @classmethod
    def plan(cls, q: Query[Reduce]) -> Plan:
        x, (y,) = q.inputs[0], q.outputs
        lanes = lanes_of_channels(x)
        if any(p % lanes for p in (y.origin, *_channel_view(y, y.shape, lanes).pitches[:2])):
            lanes = LANES
        blocks = y.shape[1] // lanes
        height, width = (1, *x.shape[2:])[-2:]
        sizes = [blocks, height, width, CODES[q.primitive.function]]
        numbers = table(_channel_view(y, y.shape, lanes), wide_view(x, x.shape, lanes), sizes)
        views = [_channel_view(q.inputs[f.operands[0]], y.shape, lanes) for f in q.post if f.operands]
        grid = (-(-blocks // VECTORS_A_GROUP) * GROUP, y.shape[0])
        entry = "reduce_gpu_vectors"
        arguments = ("in0", "out0", numbers, *post_arguments(q, views, 3))
        jit = vector_jit(y.dtype, 3, lanes)
        return Plan((Launch(f"reduce/{entry}.cl", entry, jit, grid, (GROUP, 1), arguments),))


def _channel_view(layout: Layout, shape: Shape, lanes: int = LANES) -> View:
    """Return the view of *layout*, broadcast to *shape*, on image, block of *lanes* channels and channel."""
    view = vector_view(layout, shape, channels=True, lanes=lanes)
    return View(view.origin, (view.pitches[0], *view.pitches[-2:]))
