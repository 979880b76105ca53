"""Interpolation of blocked tensors on CPU devices: nearest and linear, along rows and columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.blocked import NOTING_TILE
from clgraph.implementations.cpu.cost import TicketRanges, row_strips, step_seconds, ticket_seconds
from clgraph.implementations.cpu.fused_operations import blocked_posts, post_refusal
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    ScaleShift,
    Surface,
    blocked_refusal,
    in_planes,
    out_planes,
    planes,
    surface,
)
from clgraph.implementations.cpu.staging import staged_formats, staging
from clgraph.ops.resize import Resize
from clgraph.selector.descriptor import Descriptor, Float, Int, Pointer, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

MODES = ("nearest", "linear")
RULES = {"floor": 0, "ceil": 1, "round_prefer_floor": 2, "round_prefer_ceil": 3}
COORDINATES = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric")


@descriptor("resize_fsv16", library="direct")
class ResizeFsv16Desc(InPlanes, OutPlanes, Surface, ScaleShift, Descriptor):
    """Fields as in ``resize_fsv16.cl``."""

    inp: Pointer
    out: Pointer
    scale: Pointer
    shift: Pointer
    in_height: Int
    in_width: Int
    linear: Int
    rule: Int
    blocks: Int
    lanes: Int
    strips: Int
    strip_rows: Int
    staged: Int
    stage_at: Int
    below: Float
    above: Float
    middle: Float
    factor_y: Float
    divisor_y: Float
    offset_y: Float
    factor_x: Float
    divisor_x: Float
    offset_x: Float


@frozen
class Map:
    """Where output element i lies: ``(offset + (i + middle) * factor / divisor) - middle``, in float32 steps."""

    factor: float
    divisor: float
    offset: float = 0.0


def coordinate_map(p: Resize, axis: int, size: int) -> Map:
    """Return the map along *axis*, of *size* input elements, for the rule of *p*; see :func:`middle`."""
    out, scale = (p.shape or ())[axis], p.scales[axis]
    if scale == 1 and size == out:
        return Map(1.0, 1.0)
    if p.coordinates == "align_corners":
        return Map(float(size - 1), float(out - 1)) if out > 1 else Map(0.0, 1.0)
    if p.coordinates == "pytorch_half_pixel" and out == 1:
        return Map(0.0, 1.0, 0.5)
    if p.coordinates == "half_pixel_symmetric":
        half, factor = np.float32(0.5), np.float32(scale)
        adjusted = np.float32(out) / (factor * np.float32(size))
        return Map(1.0, scale, float(np.float32(size) * half * (np.float32(1) - adjusted)))
    return Map(1.0, scale)


def middle(p: Resize) -> float:
    """Return what stands for the middle of an element: one half where the rule counts from there, else 0."""
    return 0.5 if "half_pixel" in p.coordinates else 0.0


def coordinate_fields(q: Query[Resize]) -> dict[str, Any]:
    """Return the fields of a descriptor that say where pixels of the result lie in the input."""
    p, x = q.primitive, planes(q.inputs[0])
    last = q.outputs[0].rank - 1
    rows = coordinate_map(p, 2, x.height) if last == 3 else Map(1.0, 1.0)
    columns = coordinate_map(p, last, x.width)
    return {
        "rule": RULES[p.nearest],
        "middle": middle(p),
        "factor_y": rows.factor,
        "divisor_y": rows.divisor,
        "offset_y": rows.offset,
        "factor_x": columns.factor,
        "divisor_x": columns.divisor,
        "offset_x": columns.offset,
    }


def _pixel_seconds(q: Query[Resize]) -> float:
    """Return the time of one 16-channel pixel of the result."""
    return q.device.costs.unit(f"resize.{q.primitive.mode}")


def _strips(q: Query[Resize]) -> TicketRanges:
    n, c, *spatial = q.outputs[0].shape
    rows, row = (spatial[0] if len(spatial) == 2 else 1), spatial[-1] * _pixel_seconds(q)
    work = row * rows * n * -(-c // LANES)
    wanted = max(ticket_seconds(work, q.device), work / (32 * q.device.workers))
    return row_strips(rows, row, n * -(-c // LANES), wanted, q.device)


@implements(Resize, name="resize.fsv16", serves=replace(NOTING_TILE, prefuses=FUSABLE))
class ResizeFsv16(Implementation[Resize]):
    """Nearest or linear, a 16-channel vector a pixel; the columns' taps once a ticket."""

    @classmethod
    def limits(cls, q: Query[Resize]) -> str | None:
        p, x, y = q.primitive, q.inputs[0], q.outputs[0]
        if p.mode not in MODES or p.coordinates not in COORDINATES or p.nearest not in RULES:
            return f"serves nearest and linear, not {p.mode} with {p.coordinates} and {p.nearest}"
        if p.exclude_outside or p.antialias:
            return "repeats the border and has two taps an axis"
        if x.shape[:2] != y.shape[:2] or any(s != 1 for s in p.scales[:2]):
            return "resizes rows and columns alone"
        return blocked_refusal(x, "the input") or blocked_refusal(y, "the result") or post_refusal(q)

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
            **coordinate_fields(q),
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
