"""Global pooling of blocked tensors on CPU devices."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from clgraph.core.format import Format, feature_blocked
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.cost import TicketRanges, split, step_seconds, ticket_seconds
from clgraph.implementations.cpu.fused_operations import blocked_posts, post_refusal
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    ScaleShift,
    Surface,
    blocked_refusal,
    in_planes,
    planes,
)
from clgraph.implementations.cpu.staging import staging
from clgraph.ops.reduce import Reduce
from clgraph.selector.descriptor import Descriptor, Float, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query


@descriptor("reduce_spatial_fsv16")
class ReduceSpatialFsv16Desc(InPlanes, Surface, ScaleShift, Descriptor):
    """Fields as in ``reduce_spatial_fsv16.cl``."""

    inp: Pointer
    out: Pointer
    scale: Pointer
    shift: Pointer
    out_n: Int
    out_c: Int
    blocks: Int
    lanes: Int
    ticket_blocks: Int
    tickets: Int
    extremum: Int
    whole: Int
    staged: Int
    mean: Float
    below: Float
    above: Float


_EXTREMA = {"max": 1, "min": -1}
"""Extrema by what their arguments are multiplied with to be maxima."""


def _pixel_seconds(q: Query[Reduce]) -> float:
    unit = q.device.costs.unit
    return unit("reduce.pixel") + (unit("staging.vector") * (1 + len(staging(q).rest)) if q.pre else 0.0)


def _tickets(q: Query[Reduce]) -> TicketRanges:
    n, c, *spatial = q.inputs[0].shape
    block = prod(spatial) * _pixel_seconds(q)
    return split(-(-c // LANES), block, ticket_seconds(block * n * -(-c // LANES), q.device), q.device.workers)


@implements(Reduce, name="reduce.spatial_fsv16", serves=replace(TILE, prefuses=FUSABLE))
class ReduceSpatialFsv16(Implementation[Reduce]):
    """Sum, mean, maximum or minimum over all pixels of a channel; the axes go or stay with size 1."""

    @classmethod
    def limits(cls, q: Query[Reduce]) -> str | None:
        x, y = q.inputs[0], q.outputs[0]
        if q.primitive.function not in ("mean", "sum", *_EXTREMA):
            return f"serves mean, sum, max and min, not {q.primitive.function}"
        if x.rank not in (3, 4) or q.primitive.reduced(x.rank) != tuple(range(2, x.rank)):
            return "reduces all axes behind the channels"
        if y.rank == 2 and not y.is_dense_plain:
            return f"writes a result of rank 2 plain, not {y}"
        return (
            blocked_refusal(x, "the input")
            or (blocked_refusal(y, "the result") if y.rank > 2 else None)
            or post_refusal(q)
        )

    @classmethod
    def formats(cls, q: Query[Reduce]) -> tuple[Formats, ...]:
        x, y = q.inputs[0], q.outputs[0]
        out = feature_blocked(y.rank) if y.rank > 2 else Format.plain(y.rank)
        meets = {s: (x, feature_blocked(x.rank)) for f in q.pre for s in f.operands}
        operands = [(o, *meets.get(s, (y, out))) for s, o in enumerate(q.inputs) if s]
        wanted = (format if o.shape == met.shape else None for o, met, format in operands)
        return (Formats((feature_blocked(x.rank), *wanted), (out,)),)

    @classmethod
    def cost(cls, q: Query[Reduce]) -> float:
        n, c, *spatial = q.inputs[0].shape
        work = n * -(-c // LANES) * prod(spatial) * _pixel_seconds(q)
        return step_seconds(q.device, work, q.inputs[0].nbytes, _tickets(q).count * n)

    @classmethod
    def plan(cls, q: Query[Reduce]) -> Plan:
        x, y, t, function = planes(q.inputs[0]), q.outputs[0], _tickets(q), q.primitive.function
        blocked = planes(y) if y.rank > 2 else None
        top, bottom, left, right = blocked.halo if blocked else (0, 0, 0, 0)
        before = staging(q)
        desc = ReduceSpatialFsv16Desc(
            inp=x.at("in0"),
            out=blocked.at("out0") if blocked else Ref("out0"),
            **in_planes(x),
            height=x.height,
            width=x.width,
            out_n=blocked.n if blocked else y.shape[1],
            out_c=blocked.c if blocked else LANES,
            blocks=x.blocks,
            lanes=x.lanes,
            ticket_blocks=t.each,
            tickets=t.count,
            extremum=_EXTREMA.get(function, 0),
            whole=int(blocked is not None),
            top=top,
            bottom=bottom,
            left=left,
            right=right,
            mean=1.0 / (x.height * x.width) if function == "mean" else 1.0,
            staged=int(bool(q.pre)),
            **before.fields,
        )
        scratch = x.width * LANES * 4 if q.pre else 0
        post = (*before.rest, *blocked_posts(q))
        return Plan((Tile("reduce_spatial_fsv16", desc, t.count * x.batch, scratch=scratch, post=post),))
