"""Bottlenecks of blocked tensors on CPU devices: tickets of rows, what lies between the convolutions in scratch."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.core.format import Format
from clgraph.core.layout import Halo
from clgraph.implementations.cpu.blocked import TILE, wanted_formats, weights_refusal
from clgraph.implementations.cpu.blocks import BLOCKED, Block, Ids, ids
from clgraph.implementations.cpu.bottleneck_walk import between, depthwise_weights, walk_of, work_seconds
from clgraph.implementations.cpu.convolution_depthwise import MICROS, depthwise_micro
from clgraph.implementations.cpu.cost import step_seconds
from clgraph.implementations.cpu.float_end import NO_END, FloatEndFields, float_end, sums_alone
from clgraph.implementations.cpu.fused_operations import (
    UNBOUND,
    ResidualFields,
    in_registers,
    post_refusal,
    residual_fields,
)
from clgraph.implementations.cpu.geometry import (
    LANES,
    PACKED_BIAS,
    both_blocked_refusal,
    halo_refusal,
    planes,
)
from clgraph.implementations.cpu.window_padding import halo_of_windows
from clgraph.ops.bottleneck import Bottleneck
from clgraph.selector.descriptor import NULL, Descriptor, Float, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

MOST_BYTES = 768 * 1024
"""Most scratch for the smallest ticket there can be."""


@descriptor("bottleneck_fsv16", library="convolution", micros=("micro_conv", "micro_depthwise"))
class BottleneckFsv16Desc(ResidualFields, FloatEndFields, Descriptor):
    """Fields as in ``bottleneck_fsv16.cl``."""

    inp: Pointer
    e_weights: Pointer
    e_bias: Pointer
    weights: Pointer
    bias: Pointer
    p_weights: Pointer
    p_bias: Pointer
    out: Pointer
    e_widths: Long
    e_ids_0: Long
    e_ids_1: Long
    e_last_widths: Long
    e_last_ids_0: Long
    e_last_ids_1: Long
    p_widths: Long
    p_ids_0: Long
    p_ids_1: Long
    p_last_widths: Long
    p_last_ids_0: Long
    p_last_ids_1: Long
    in_n: Int
    in_c: Int
    in_y: Int
    in_height: Int
    in_width: Int
    channels: Int
    expands: Int
    e_weight_group: Int
    e_chunks: Int
    e_chunk_width: Int
    kernel_y: Int
    kernel_x: Int
    stride_y: Int
    step_x: Int
    pad_top: Int
    pad_left: Int
    id: Int
    hidden: Int
    blocks: Int
    hidden_lanes: Int
    projects: Int
    p_weight_group: Int
    p_chunks: Int
    p_chunk_width: Int
    p_groups: Int
    p_nb: Int
    ring_c: Int
    ring_y: Int
    ring_width: Int
    rows_at: Int
    rows_c: Int
    rows_y: Int
    e_posts: Int
    d_posts: Int
    groups: Int
    group_blocks: Int
    strips: Int
    strip_rows: Int
    tiers: Int
    tier_groups: Int
    out_n: Int
    out_c: Int
    out_y: Int
    height: Int
    width: Int
    top: Int
    bottom: Int
    left: Int
    right: Int
    out_blocks: Int
    lanes: Int
    e_low: Float
    e_high: Float
    e_gate: Float
    e_gate_from: Float
    e_factor: Float
    e_summand: Float
    e_step: Float
    e_reciprocal: Float
    e_remainder: Float
    e_least: Float
    e_most: Float
    e_bounded: Int
    e_gated: Int
    e_scaled: Int
    e_stepped: Int
    d_low: Float
    d_high: Float
    d_gate: Float
    d_gate_from: Float
    d_factor: Float
    d_summand: Float
    d_step: Float
    d_reciprocal: Float
    d_remainder: Float
    d_least: Float
    d_most: Float
    d_bounded: Int
    d_gated: Int
    d_scaled: Int
    d_stepped: Int


def _tables(simd: int, block: Block | None) -> tuple[Ids, Ids]:
    """Return the instances of a 1x1 convolution, and those of its last group."""
    return (
        (ids(simd, BLOCKED, 1, block.nb), ids(simd, BLOCKED, 1, block.nb, block.last))
        if block
        else (Ids(0, 0, 0), Ids(0, 0, 0))
    )


def _halo(q: Query[Bottleneck]) -> Halo:
    """Return the zeros that the windows reach into where the depthwise convolution is the first."""
    p = q.primitive.depthwise
    sizes, made = q.inputs[0].shape[2:], q.outputs[0].shape[2:]
    return halo_of_windows(sizes, made, depthwise_weights(q).shape[2:], p.pads, p.strides, p.dilations)


@implements(Bottleneck, name="bottleneck.fsv16", serves=TILE)
class BottleneckFsv16(Implementation[Bottleneck]):
    """Rows of all convolutions in one ticket; what lies between them never leaves the second-level cache."""

    @classmethod
    def limits(cls, q: Query[Bottleneck]) -> str | None:
        x, p = q.inputs[0], q.primitive
        hidden = q.inputs[1].shape[0] if p.expands else x.shape[1]
        if p.depthwise.groups != hidden or max(p.depthwise.dilations) > 1:
            return "serves depthwise convolutions without dilation"
        if not p.projects and p.filtered:
            return "takes what follows the last convolution as a fused operation"
        refused = (
            both_blocked_refusal(q)
            or weights_refusal(q, "packed blocks")
            or post_refusal(q)
            or (None if p.expands else halo_refusal(x, _halo(q)))
        )
        if refused:
            return refused
        if (needed := walk_of(q).scratch) > MOST_BYTES:
            return f"keeps {needed} bytes between the convolutions, and serves at most {MOST_BYTES}"
        return None

    @classmethod
    def formats(cls, q: Query[Bottleneck]) -> tuple[Formats, ...]:
        return wanted_formats(q)

    @classmethod
    def weights(cls, q: Query[Bottleneck]) -> Mapping[int, Format]:
        formats: dict[int, Format] = {}
        w, slot = walk_of(q), 1
        for nb in (w.expand.nb if w.expand else None, 0, w.project.nb if w.project else None):
            if nb is not None:
                blocks = ((1, LANES), (0, LANES * nb)) if nb else ((0, LANES),)
                formats |= {slot: Format((0, 1, 2, 3), blocks), slot + 1: PACKED_BIAS}
                slot += 2
        return formats

    @classmethod
    def halo(cls, q: Query[Bottleneck]) -> Mapping[int, Halo]:
        return {} if q.primitive.expands else {0: _halo(q)}

    @classmethod
    def cost(cls, q: Query[Bottleneck]) -> float:
        w, batch = walk_of(q), q.outputs[0].shape[0]
        traffic = sum(x.nbytes for x in (*q.inputs, *q.outputs))
        return step_seconds(q.device, work_seconds(q, w) * batch, traffic, w.strips.count * w.tiers.count * batch)

    @classmethod
    def plan(cls, q: Query[Bottleneck]) -> Plan:
        w, p, x, y = walk_of(q), q.primitive, planes(q.inputs[0]), planes(q.outputs[0])
        simd, hidden_lanes = q.device.simd, w.hidden - (w.blocks - 1) * LANES
        registers, end = in_registers(q), NO_END
        expanded, filtered = between(q, p.expanded, hidden_lanes), between(q, p.filtered, hidden_lanes)
        if p.projects:
            end = float_end(q, registers, y.lanes)
        else:
            # The sums of the depthwise convolution are the last ones.
            registers, filtered = UNBOUND, float_end(q, sums_alone(q), y.lanes)
        first = 3 if p.expands else 1
        (e, e_last), (t, t_last) = _tables(simd, w.expand), _tables(simd, w.project)
        (pad_top, _), (pad_left, _) = p.depthwise.pads
        top, bottom, left, right = y.halo
        ring_c = w.kernel[0] * w.ring_width * LANES
        blocks_of_input = -(-x.channels // LANES) * LANES
        desc = BottleneckFsv16Desc(
            inp=x.at("in0") if p.expands else x.at("in0", -pad_top, -pad_left),
            e_weights=Ref("in1") if p.expands else NULL,
            e_bias=Ref("in2") if p.expands else NULL,
            weights=Ref(f"in{first}"),
            bias=Ref(f"in{first + 1}"),
            p_weights=Ref(f"in{first + 2}") if p.projects else NULL,
            p_bias=Ref(f"in{first + 3}") if p.projects else NULL,
            out=y.at("out0"),
            **e.fields("e_"),
            **e_last.fields("e_last_"),
            **t.fields("p_"),
            **t_last.fields("p_last_"),
            in_n=x.n,
            in_c=x.c,
            in_y=x.y,
            in_height=x.height,
            in_width=x.width,
            channels=x.channels,
            expands=int(p.expands),
            e_weight_group=blocks_of_input * LANES * w.group,
            e_chunks=w.expand.chunks if w.expand else 0,
            e_chunk_width=w.expand.chunk_width if w.expand else 0,
            kernel_y=w.kernel[0],
            kernel_x=w.kernel[1],
            stride_y=w.stride[0],
            step_x=w.stride[1] * LANES,
            pad_top=pad_top,
            pad_left=pad_left,
            id=MICROS.id(simd, depthwise_micro(simd, w.kernel, w.stride[1], w.width)),
            hidden=w.hidden,
            blocks=w.blocks,
            hidden_lanes=hidden_lanes,
            projects=int(p.projects),
            p_weight_group=w.blocks * LANES * LANES * w.project.nb if w.project else 0,
            p_chunks=w.project.chunks if w.project else 0,
            p_chunk_width=w.project.chunk_width if w.project else 0,
            p_groups=-(-y.blocks // w.project.nb) if w.project else 0,
            p_nb=w.project.nb if w.project else 0,
            ring_c=ring_c,
            ring_y=w.ring_width * LANES,
            ring_width=w.ring_width,
            rows_at=w.ring * LANES,
            rows_c=w.strips.each * w.width * LANES if w.project else y.c,
            rows_y=w.width * LANES if w.project else y.y,
            e_posts=len(expanded.rest),
            d_posts=len(filtered.rest),
            groups=w.groups,
            group_blocks=w.group,
            strips=w.strips.count,
            strip_rows=w.strips.each,
            tiers=w.tiers.count,
            tier_groups=w.tiers.each,
            out_n=y.n,
            out_c=y.c,
            out_y=y.y,
            height=y.height,
            width=y.width,
            top=top,
            bottom=bottom,
            left=left,
            right=right,
            out_blocks=y.blocks,
            lanes=y.lanes,
            **expanded.fields("e_"),
            **filtered.fields("d_"),
            **end.fields(""),
            **residual_fields(q, registers),
        )
        tickets = w.strips.count * w.tiers.count * y.batch
        return Plan((Tile("bottleneck_fsv16", desc, tickets, w.scratch, (*expanded.rest, *filtered.rest, *end.rest)),))
