"""Pooling of blocked tensors on CPU devices."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from clgraph.implementations.cpu.blocked import TILE, square, square_pads
from clgraph.implementations.cpu.cost import TicketRanges, row_strips, step_seconds, ticket_seconds
from clgraph.implementations.cpu.fused_operations import blocked_posts, post_refusal
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    ScaleShift,
    SlidingWindow,
    Surface,
    both_blocked_refusal,
    in_planes,
    out_planes,
    planes,
    surface,
    window,
)
from clgraph.implementations.cpu.staging import staged_formats, staging
from clgraph.ops.pooling import Pooling
from clgraph.selector.descriptor import Descriptor, Float, Int, Pointer, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query


@descriptor("pool_fsv16", library="direct")
class PoolFsv16Desc(InPlanes, OutPlanes, Surface, SlidingWindow, ScaleShift, Descriptor):
    """Fields as in ``pool_fsv16.cl``."""

    inp: Pointer
    out: Pointer
    scale: Pointer
    shift: Pointer
    in_height: Int
    in_width: Int
    pad_top: Int
    pad_left: Int
    pad_bottom: Int
    pad_right: Int
    average: Int
    padded: Int
    blocks: Int
    lanes: Int
    strips: Int
    strip_rows: Int
    staged: Int
    below: Float
    above: Float


def _row_seconds(q: Query[Pooling]) -> float:
    unit = q.device.costs.unit
    pooled = q.outputs[0].shape[-1] * (prod(q.primitive.kernel) + 4) * unit("pooling.tap")
    if not q.pre:
        return pooled
    staged = square(q.primitive.kernel)[0] * q.inputs[0].shape[-1]
    return pooled + staged * unit("staging.vector") * (1 + len(staging(q).rest))


def _strips(q: Query[Pooling]) -> TicketRanges:
    n, c, *spatial = q.outputs[0].shape
    rows, row = (spatial[0] if len(spatial) == 2 else 1), _row_seconds(q)
    planes_of = n * -(-c // 16)
    wanted = ticket_seconds(row * rows * planes_of, q.device)
    return row_strips(
        rows, spatial[-1], row, planes_of, max(wanted, row * rows * planes_of / (64 * q.device.workers)), q.device
    )


@implements(Pooling, name="pooling.fsv16", serves=replace(TILE, prefuses=FUSABLE))
class PoolFsv16(Implementation[Pooling]):
    """One 16-channel vector an output pixel, the window clipped to the input; with operations in front, staged."""

    @classmethod
    def limits(cls, q: Query[Pooling]) -> str | None:
        return both_blocked_refusal(q) or post_refusal(q)

    @classmethod
    def formats(cls, q: Query[Pooling]) -> tuple[Formats, ...]:
        return staged_formats(q)

    @classmethod
    def cost(cls, q: Query[Pooling]) -> float:
        n, c, *spatial = q.outputs[0].shape
        rows = n * -(-c // 16) * prod(spatial[:-1])
        traffic = sum(x.nbytes for x in (*q.inputs, *q.outputs))
        return step_seconds(q.device, _row_seconds(q) * rows, traffic, _strips(q).count * n * -(-c // 16))

    @classmethod
    def plan(cls, q: Query[Pooling]) -> Plan:
        x, y, p, strips = planes(q.inputs[0]), planes(q.outputs[0]), q.primitive, _strips(q)
        kernel, stride, dilation = square(p.kernel), square(p.strides), square(p.dilations)
        (top, bottom), (left, right) = square_pads(p.pads)
        before = staging(q)
        desc = PoolFsv16Desc(
            inp=x.at("in0"),
            out=y.at("out0"),
            **in_planes(x),
            **out_planes(y),
            in_height=x.height,
            in_width=x.width,
            **surface(y.height, y.width, y.halo),
            **window(kernel, stride, dilation),
            pad_top=top,
            pad_left=left,
            pad_bottom=bottom,
            pad_right=right,
            average=int(p.function == "average"),
            padded=int(p.count_include_pad),
            blocks=y.blocks,
            lanes=y.lanes,
            strips=strips.count,
            strip_rows=strips.each,
            staged=int(bool(q.pre)),
            **before.fields,
        )
        scratch = kernel[0] * x.width * LANES * 4 if q.pre else 0
        post = (*before.rest, *blocked_posts(q))
        return Plan((Tile("pool_fsv16", desc, y.batch * y.blocks * strips.count, scratch=scratch, post=post),))
