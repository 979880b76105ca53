"""Convolutions and matrix products of bytes on CPU devices: the step of their driver."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from clgraph.implementations.cpu.block_tickets import BlockTicketsFields, block_tickets_fields
from clgraph.implementations.cpu.blocks import BYTES, IdsFields, ids
from clgraph.implementations.cpu.byte_end_fields import (
    CHANNEL_NUMBERS,
    END_BYTES,
    EXTREMES,
    ByteEnd,
    End,
    EndOperands,
    four_times,
)
from clgraph.implementations.cpu.byte_ends import end_of, listed_of, operand_refs
from clgraph.implementations.cpu.byte_operands import BLOCK_WORDS
from clgraph.implementations.cpu.byte_sizes import byte_planes, byte_sizes, tickets
from clgraph.implementations.cpu.convolution_weights import fetched_a_step
from clgraph.implementations.cpu.fused_operations import blocked_posts
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.selector.descriptor import NULL, Descriptor, Float, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

LANE_BYTES = 4 * LANES
FLOAT_SCRATCH = 16 * LANES * 4
"""Bytes of the floats of one block of channels of a register block."""


@descriptor("conv_bytes", library="bytes", micros=("micro_bytes",))
class ConvBytesDesc(ByteEnd, EndOperands, BlockTicketsFields, IdsFields, Descriptor):
    """Fields as in ``conv_bytes.cl``."""

    inp: Pointer
    weights: Pointer
    start: Pointer
    scale: Pointer
    bias: Pointer
    out: Pointer
    res: Pointer
    zero_point: Pointer
    weight_group: Long
    in_n: Int
    in_g: Int
    in_c: Int
    in_y: Int
    in_x: Int
    in_blocks: Int
    in_height: Int
    in_width: Int
    pad_top: Int
    pad_left: Int
    pad: Int
    staged: Int
    dilation_y: Int
    dilation_x: Int
    stride_y: Int
    stride_x: Int
    kernel_y: Int
    kernel_x: Int
    out_n: Int
    out_c: Int
    out_y: Int
    out_x: Int
    res_n: Int
    res_c: Int
    res_y: Int
    res_x: Int
    words: Int
    height: Int
    width: Int
    blocks: Int
    groups: Int
    group_groups: Int
    lanes: Int
    mode: Int
    itemsize: Int
    spread: Int
    fetched: Int
    apart: Int
    sums: Int
    weight_shift: Int
    tail: Int
    listed: Int
    last: Float


def tail_mask(channels: int) -> int:
    """Return the bits of the last of the words of *channels* bytes that these are, as an int."""
    return (1 << 8 * (channels % 4)) - 1 if channels % 4 else -1


def products(q: Query[QuantizedConvolution]) -> Plan:
    """Return the step of a problem that nothing refuses."""
    s, p, end = byte_sizes(q), q.primitive, end_of(q)
    assert isinstance(end, End)
    t, x, y = tickets(q, s), s.x, s.y
    table = ids(q.device.simd, BYTES, s.block.stride, s.block.nb)
    res = byte_planes(q.inputs[end.residual]) if end.residual is not None else None
    in_blocks = -(-s.words // BLOCK_WORDS)
    taps = s.words * prod(s.kernel)
    apart = 0 if "vnni" in q.device.features else -(-taps * 8 // LANE_BYTES) * LANE_BYTES
    widest = s.block.chunk_width or -(-s.width // s.block.chunks)
    summed = -(-t.chunks.each * widest // LANES) * LANE_BYTES if p.shift else 0
    flat = s.height < y.height
    desc = ConvBytesDesc(
        inp=x.at("in0"),
        weights=Ref("in1"),
        start=Ref("in2"),
        scale=Ref("in3"),
        bias=Ref("in4"),
        out=y.at("out0"),
        res=NULL if res is None else res.at(f"in{end.residual}"),
        zero_point=Ref(q.role(5)),
        **table.fields(),
        weight_group=s.group_bytes,
        fetched=fetched_a_step(4 * LANES * s.block.nb, t.chunks.each, s.group_bytes * s.groups),
        in_n=x.n,
        in_g=x.c * in_blocks,
        in_c=x.c,
        in_y=x.y,
        in_x=x.x,
        in_blocks=in_blocks,
        in_height=1 if flat else x.height,
        in_width=x.height * x.width if flat else x.width,
        pad_top=s.pads[0],
        pad_left=s.pads[1],
        pad=four_times(p.zero),
        staged=int(s.staged),
        dilation_y=s.dilation[0],
        dilation_x=s.dilation[1],
        stride_y=s.stride[0],
        stride_x=s.stride[1],
        kernel_y=s.kernel[0],
        kernel_x=s.kernel[1],
        out_n=y.n,
        out_c=q.outputs[0].shape[1] if end.mode == EXTREMES else y.c,
        out_y=y.y,
        out_x=y.x,
        res_n=0 if res is None else res.n,
        res_c=0 if res is None else res.c,
        res_y=0 if res is None else res.y,
        res_x=0 if res is None else res.x,
        words=s.words,
        height=s.height,
        width=s.width,
        **block_tickets_fields(s.block, s.height, t),
        blocks=s.blocks * p.groups,
        groups=s.groups * p.groups,
        group_groups=s.groups,
        lanes=y.lanes,
        mode=end.mode,
        itemsize=y.itemsize,
        spread=0,
        apart=apart,
        sums=summed,
        weight_shift=p.shift,
        tail=tail_mask(q.inputs[1].shape[1]),
        listed=int(end.last > 0),
        last=end.last,
        **operand_refs(q, end),
        **end.numbers,
    )
    rows = -(-t.chunks.each // s.block.chunks)
    scratch = END_BYTES + CHANNEL_NUMBERS * LANES * 4 * s.block.nb
    scratch += FLOAT_SCRATCH * s.block.nb if end.last > 0 or y.x != LANES else 0
    scratch += apart + summed + (LANES * 4 * s.block.nb if q.arity > 5 else 0)
    if s.staged:
        pixels = min(s.width, t.chunks.each * widest) if s.height == 1 else s.width
        spread = zip((rows, pixels), s.stride, s.kernel, s.dilation, strict=True)
        scratch += in_blocks * LANES * prod((n - 1) * by + (k - 1) * d + 1 for n, by, k, d in spread)
    posts = blocked_posts(replace(q, fused=listed_of(q, end)))
    return Plan((Tile("conv_bytes", desc, t.count * y.batch, scratch, posts),))
