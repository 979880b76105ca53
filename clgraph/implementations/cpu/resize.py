"""Interpolation of blocked tensors on CPU devices: nearest and linear, along rows and columns."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.cost import TicketRanges, row_strips, step_seconds, ticket_seconds
from clgraph.implementations.cpu.fused_operations import blocked_posts, post_refusal
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    ScaleShift,
    Surface,
    in_planes,
    out_planes,
    planes,
    surface,
)
from clgraph.implementations.cpu.resize_map import ResizeMap, planes_refusal, resize_map, rule_refusal
from clgraph.implementations.cpu.staging import staged_formats, staging
from clgraph.ops.resize import Resize
from clgraph.selector.descriptor import Descriptor, Float, Int, Pointer, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

_MODES = ("nearest", "linear")


@descriptor("resize_fsv16", library="direct")
class ResizeFsv16Desc(InPlanes, OutPlanes, Surface, ScaleShift, ResizeMap, Descriptor):
    """Fields as in ``resize_fsv16.cl``."""

    inp: Pointer
    out: Pointer
    scale: Pointer
    shift: Pointer
    in_height: Int
    in_width: Int
    linear: Int
    blocks: Int
    lanes: Int
    strips: Int
    strip_rows: Int
    staged: Int
    stage_at: Int
    below: Float
    above: Float


def _pixel_seconds(q: Query[Resize]) -> float:
    """Return the time of one 16-channel pixel of the result."""
    return q.device.costs.unit(f"resize.{q.primitive.mode}")


def _strips(q: Query[Resize]) -> TicketRanges:
    n, c, *spatial = q.outputs[0].shape
    rows, row = (spatial[0] if len(spatial) == 2 else 1), spatial[-1] * _pixel_seconds(q)
    work = row * rows * n * -(-c // LANES)
    wanted = max(ticket_seconds(work, q.device), work / (32 * q.device.workers))
    return row_strips(rows, spatial[-1], row, n * -(-c // LANES), wanted, q.device)


@implements(Resize, name="resize.fsv16", serves=replace(TILE, prefuses=FUSABLE))
class ResizeFsv16(Implementation[Resize]):
    """Nearest or linear, a 16-channel vector a pixel; the columns' taps once a ticket."""

    @classmethod
    def limits(cls, q: Query[Resize]) -> str | None:
        p = q.primitive
        bordered = "repeats the border and has two taps an axis" if p.exclude_outside or p.antialias else None
        return rule_refusal(p, _MODES) or bordered or planes_refusal(q) or post_refusal(q)

    @classmethod
    def formats(cls, q: Query[Resize]) -> tuple[Formats, ...]:
        return staged_formats(q) if q.outputs[0].rank in (3, 4) else ()

    @classmethod
    def cost(cls, q: Query[Resize]) -> float:
        n, c, *spatial = q.outputs[0].shape
        pixels = n * -(-c // LANES) * spatial[0] * (spatial[1] if len(spatial) == 2 else 1)
        traffic = q.inputs[0].nbytes + q.outputs[0].nbytes
        tickets = _strips(q).count * n * -(-c // LANES)
        staged = q.inputs[0].nbytes / 4 / LANES if q.pre else 0.0
        vector = q.device.costs.unit("staging.vector") * (1 + len(staging(q).rest))
        work = pixels * _pixel_seconds(q) + 2 * staged * vector
        return step_seconds(q.device, work, traffic, tickets)

    @classmethod
    def plan(cls, q: Query[Resize]) -> Plan:
        x, y, p, strips = planes(q.inputs[0]), planes(q.outputs[0]), q.primitive, _strips(q)
        before, stage_at = staging(q), -(-12 * y.width // 64) * 64
        desc = ResizeFsv16Desc(
            inp=x.at("in0"),
            out=y.at("out0"),
            **in_planes(x),
            in_height=x.height,
            in_width=x.width,
            **out_planes(y),
            **surface(y.height, y.width, y.halo),
            linear=int(p.mode == "linear"),
            **resize_map(q, 2 if q.outputs[0].rank == 4 else None, q.outputs[0].rank - 1),
            blocks=y.blocks,
            lanes=y.lanes,
            strips=strips.count,
            strip_rows=strips.each,
            staged=int(bool(q.pre)),
            stage_at=stage_at,
            **before.fields,
        )
        tickets = y.batch * y.blocks * strips.count
        scratch = stage_at + 2 * x.width * LANES * 4 if q.pre else 12 * y.width
        post = (*before.rest, *blocked_posts(q))
        return Plan((Tile("resize_fsv16", desc, tickets, scratch=scratch, post=post),))
