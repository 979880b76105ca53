"""Convolutions of bfloat16 on CPU devices that multiply it, two neighbouring channels at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import prod

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.blocked import TILE, bias_alone, wanted_formats, weights_refusal
from clgraph.implementations.cpu.convolution_pair_sizes import chunk_seconds, pair_sizes, pair_tickets, row_seconds
from clgraph.implementations.cpu.cost import step_seconds
from clgraph.implementations.cpu.fused_operations import (
    InRegistersFields,
    blocked_posts,
    in_registers,
    in_registers_fields,
    post_refusal,
    residual_overwritten,
)
from clgraph.implementations.cpu.geometry import (
    OutPlanes,
    Surface,
    both_blocked_refusal,
    out_planes,
    surface,
)
from clgraph.implementations.cpu.matmul import CACHED
from clgraph.implementations.cpu.matmul_instances import GROUP
from clgraph.implementations.cpu.matmul_pairs import fetched
from clgraph.ops.convolution import Convolution
from clgraph.ops.reorder import Reorder
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import BFLOATS, Query


@descriptor("bfloat_pixels", library="bfloat")
class BfloatPixelsDesc(Descriptor):
    """Fields as in ``bfloat_pixels.cl``."""

    inp: Pointer
    out: Pointer
    in_n: Int
    in_c: Int
    in_y: Int
    in_height: Int
    in_width: Int
    height: Int
    width: Int
    depth: Int
    pad_top: Int
    pad_left: Int
    take_y: Int
    take_x: Int
    rows: Int
    ticket_rows: Int


@descriptor("conv_pairs", library="bfloat", micros=("micro_pairs",))
class ConvPairsDesc(OutPlanes, Surface, InRegistersFields, Descriptor):
    """Fields as in ``conv_pairs.cl``."""

    a: Pointer
    weights: Pointer
    bias: Pointer
    out: Pointer
    a_n: Long
    a_y: Int
    a_x: Int
    weight_group: Long
    pairs: Int
    runs_x: Int
    runs_y: Int
    run_x: Int
    run_y: Int
    blocks: Int
    lanes: Int
    chunks: Int
    row_chunks: Int
    ticket_chunks: Int
    ticket_groups: Int
    groups: Int
    spans: Int
    batch_tickets: Int
    wide: Int
    first_id: Int
    tiles_id: Int
    fetched: Int


@cache
def _packed(rank: int) -> Format:
    """Return the format of weights: [o / 64][kernel][c / 2][64][2]."""
    return Format((0, *range(2, rank), 1), ((0, GROUP), (1, 2)))


@implements(
    Convolution,
    name="convolution.bf16_pairs",
    serves=replace(TILE, dtypes=frozenset({DType.F32, DType.BF16}), mixed=True, features=frozenset({"bf16", BFLOATS})),
)
class ConvPairs(Implementation[Convolution]):
    """Pixels are rounded to bfloat16, channels side by side, and multiplied in blocks of 6 or 32 by 64 channels."""

    @classmethod
    def limits(cls, q: Query[Convolution]) -> str | None:
        p, w = q.primitive, q.inputs[1]
        if p.groups > 1:
            return "serves no groups"
        if p.exact:
            return "rounds otherwise than the sum of the products"
        if any(x.dtype != DType.F32 for i, x in enumerate((*q.inputs, *q.outputs)) if i != 1):
            return "serves float32 beside the weights"
        if w.dtype == DType.BF16 and w.format != _packed(w.rank):
            return "rounds its weights itself"
        return weights_refusal(q, "packed blocks") or both_blocked_refusal(q) or post_refusal(q)

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return wanted_formats(q)

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format | Primitive]:
        asked: dict[int, Format | Primitive] = {**bias_alone(q)}
        if q.inputs[1].dtype != DType.BF16:
            asked[1] = Reorder(DType.BF16, _packed(q.inputs[1].rank))
        return asked

    @classmethod
    def overwrites(cls, q: Query[Convolution]) -> frozenset[int]:
        return residual_overwritten(q)

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        s = pair_sizes(q)
        t, batch = pair_tickets(q, s), s.y.batch
        rounded = 2 * s.depth * prod(s.rounded) * batch
        first = s.rounded[0] * batch * row_seconds(q, s)
        begin = step_seconds(q.device, first, q.inputs[0].nbytes + rounded, t.rounding.count)
        work = chunk_seconds(q, s) * s.chunks * s.height * s.groups * batch
        moved = rounded + sum(x.nbytes for x in (*q.inputs[2:], *q.outputs)) + 2 * q.inputs[1].count
        return begin + step_seconds(q.device, work, moved, t.count * batch)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        s, registers = pair_sizes(q), in_registers(q)
        t, x, y = pair_tickets(q, s), s.x, s.y
        row = s.rounded[1] * s.depth
        rounding = BfloatPixelsDesc(
            inp=x.at("in0"),
            out=Ref("scratch0"),
            in_n=x.n,
            in_c=x.c,
            in_y=x.y,
            in_height=x.height,
            in_width=x.width,
            height=s.rounded[0],
            width=s.rounded[1],
            depth=s.depth,
            pad_top=s.pads[0],
            pad_left=s.pads[1],
            take_y=s.taken[0],
            take_x=s.taken[1],
            rows=s.rounded[0] * y.batch,
            ticket_rows=t.rounding.each,
        )
        weight_group = 2 * GROUP * s.steps
        product = ConvPairsDesc(
            a=Ref("scratch0"),
            weights=Ref("in1"),
            bias=Ref(q.role(2)),
            out=y.at("out0"),
            a_n=s.rounded[0] * row,
            a_y=s.stride[0] * row,
            a_x=s.stride[1] * s.depth,
            weight_group=weight_group,
            pairs=s.pairs,
            runs_x=s.runs[1],
            runs_y=s.runs[0],
            run_x=s.dilation[1] * s.depth,
            run_y=s.dilation[0] * row,
            **out_planes(y),
            **surface(s.height, s.width, y.halo),
            blocks=y.blocks,
            lanes=y.lanes,
            chunks=s.chunks * s.height,
            row_chunks=s.chunks,
            ticket_chunks=t.chunks.each,
            ticket_groups=t.groups.each,
            groups=s.groups,
            spans=t.chunks.count,
            batch_tickets=t.count,
            wide=s.block.rows if s.block.tiles_id >= 0 else 0,
            first_id=0,
            tiles_id=s.block.tiles_id,
            fetched=fetched(t.chunks.each) if 2 * weight_group * s.groups > CACHED else 0,
            **in_registers_fields(q, registers),
        )
        steps = (
            Tile("bfloat_pixels", rounding, t.rounding.count),
            Tile("conv_pairs", product, t.count * y.batch, post=blocked_posts(q, registers.taken)),
        )
        # Of the last pixels a whole block is read.
        return Plan(steps, (2 * (s.rounded[0] * row * y.batch + s.block.rows * s.stride[1] * s.depth),))
