"""Convolutions of blocked tensors with operations in front, applied to the strip of a ticket, on CPU devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from clgraph.core.format import Format
from clgraph.implementations.cpu.blocked import TILE, packed_blocks, weights_refusal, with_bias
from clgraph.implementations.cpu.blocks import BLOCKED, IdsFields, ids
from clgraph.implementations.cpu.convolution_strips import Strips, strips_of, strips_seconds
from clgraph.implementations.cpu.convolution_weights import weight_distance
from clgraph.implementations.cpu.float_end import FloatEndFields, float_end
from clgraph.implementations.cpu.fused_operations import (
    ResidualFields,
    in_registers,
    post_refusal,
    residual_fields,
    residual_overwritten,
)
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    ScaleShift,
    Surface,
    both_blocked_refusal,
    in_planes,
    out_planes,
    planes,
    surface,
)
from clgraph.implementations.cpu.staging import staged_formats, staging
from clgraph.ops.convolution import Convolution
from clgraph.selector.descriptor import Descriptor, Float, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

KEPT_BYTES = 512 * 1024
"""Weights that stay in the second-level cache beside what is staged."""

MOST_BYTES = 512 * 1024
"""Most scratch for the smallest ticket there can be."""


@descriptor("conv_staged", library="direct", micros=("micro_conv",))
class ConvStagedDesc(InPlanes, OutPlanes, Surface, ScaleShift, ResidualFields, FloatEndFields, IdsFields, Descriptor):
    """Fields as in ``conv_staged.cl``."""

    inp: Pointer
    scale: Pointer
    shift: Pointer
    weights: Pointer
    bias: Pointer
    out: Pointer
    last_widths: Long
    last_ids_0: Long
    last_ids_1: Long
    in_height: Int
    in_width: Int
    in_blocks: Int
    in_lanes: Int
    take_y: Int
    take_x: Int
    step_y: Int
    step_x: Int
    pad_top: Int
    pad_left: Int
    dilation_y: Int
    dilation_x: Int
    channels: Int
    kernel_y: Int
    kernel_x: Int
    strip_rows: Int
    strip_chunks: Int
    strips: Int
    row_strips: Int
    nb: Int
    out_blocks: Int
    groups: Int
    lanes: Int
    row_chunks: Int
    chunk_width: Int
    weight_group: Int
    ticket_groups: Int
    tiers: Int
    lines: Int
    distance: Int
    weight_ahead: Int
    below: Float
    above: Float


def _lines(s: Strips) -> int:
    """Return the lines of the next group's weights that a chunk fetches of each block: none that stay in a cache."""
    return -(-LANES * s.block.nb // s.ticket_chunks) if s.weight_bytes > KEPT_BYTES else 0


@implements(Convolution, name="convolution.staged", serves=replace(TILE, prefuses=FUSABLE))
class ConvStaged(Implementation[Convolution]):
    """Applies what stands in front to the input of a ticket in scratch and runs register blocks on that."""

    @classmethod
    def limits(cls, q: Query[Convolution]) -> str | None:
        if not q.pre:
            return "serves convolutions with operations in front of them"
        if q.primitive.groups > 1:
            return "serves one group"
        refused = both_blocked_refusal(q) or weights_refusal(q, "packed blocks") or post_refusal(q)
        if refused:
            return refused
        if (staged := strips_of(q).scratch) > MOST_BYTES:
            return f"stages the input of a part of a row, {staged} bytes here, and serves at most {MOST_BYTES}"
        return None

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return staged_formats(q)

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format]:
        return with_bias(q, packed_blocks(q.inputs[1].rank, strips_of(q).block.nb))

    @classmethod
    def overwrites(cls, q: Query[Convolution]) -> frozenset[int]:
        return residual_overwritten(q)

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        return strips_seconds(q, strips_of(q))

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        s, x, y, registers = strips_of(q), planes(q.inputs[0]), planes(q.outputs[0]), in_registers(q)
        before, end = staging(q, s.take[1]), float_end(q, registers, y.lanes)
        table = ids(q.device.simd, BLOCKED, s.block.stride, s.block.nb)
        last = ids(q.device.simd, BLOCKED, s.block.stride, s.block.nb, s.block.last)
        channels, weight_group = q.inputs[1].shape[1], s.group_bytes // 4
        lines, steps = _lines(s), -(-channels // LANES) * prod(s.kernel)
        flat = s.height != y.height or s.width != y.width
        desc = ConvStagedDesc(
            inp=x.at("in0"),
            weights=Ref("in1"),
            bias=Ref(q.role(2)),
            out=y.at("out0"),
            **table.fields(),
            **last.fields("last_"),
            **in_planes(x),
            in_height=1 if flat else x.height,
            in_width=s.width if flat else x.width,
            in_blocks=x.blocks,
            in_lanes=x.lanes,
            take_y=s.take[0],
            take_x=s.take[1],
            step_y=s.step[0],
            step_x=s.step[1],
            pad_top=s.pads[0],
            pad_left=s.pads[1],
            dilation_y=s.dilation[0],
            dilation_x=s.dilation[1],
            channels=channels,
            kernel_y=s.kernel[0],
            kernel_x=s.kernel[1],
            strip_rows=s.rows.each,
            strip_chunks=s.chunks.each if s.chunks.count > 1 else s.block.chunks,
            strips=s.strips,
            row_strips=s.chunks.count,
            **out_planes(y),
            **surface(s.height, s.width, y.halo),
            nb=s.block.nb,
            out_blocks=y.blocks,
            groups=s.groups,
            lanes=y.lanes,
            row_chunks=s.block.chunks,
            chunk_width=s.block.chunk_width,
            weight_group=weight_group,
            ticket_groups=s.tiers.each,
            tiers=s.tiers.count,
            lines=lines,
            distance=weight_distance(weight_group, s.ticket_chunks),
            weight_ahead=steps * lines * LANES,
            **residual_fields(q, registers),
            **end.fields(""),
            **before.fields,
        )
        post = (*before.rest, *end.rest)
        tickets = s.strips * s.tiers.count * y.batch
        return Plan((Tile("conv_staged", desc, tickets, scratch=s.scratch, post=post),))
