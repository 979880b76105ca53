"""Convolutions and matrix products of bytes on CPU devices: sizes, tickets and the step of their driver."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.memo import remembered
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.blocked import operand_proposals, square
from clgraph.implementations.cpu.blocks import BYTES, Block, blocks_of, ids
from clgraph.implementations.cpu.byte_end_fields import BYTES as PLAIN
from clgraph.implementations.cpu.byte_end_fields import (
    CHANNEL_NUMBERS,
    END_BYTES,
    EXTREMES,
    ByteEnd,
    End,
    EndOperands,
    four_times,
)
from clgraph.implementations.cpu.byte_ends import end_of, listed_of, lookup_of, operand_refs, written
from clgraph.implementations.cpu.convolution_weights import fetched_a_step
from clgraph.implementations.cpu.cost import TicketRanges, map_parts, split, step_seconds, ticket_seconds, worker_flops
from clgraph.implementations.cpu.fused_operations import blocked_posts, operand_pitches
from clgraph.implementations.cpu.geometry import LANES, PACKED_BIAS, Planes, pixel_rows, planes
from clgraph.ops.quantized_convolution import ROUNDED, QuantizedConvolution
from clgraph.selector.descriptor import NULL, Descriptor, Float, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Serves
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import NOTING
from clgraph.selector.query import Query

_FUSES = ROUNDED | NOTING | {"byte_lookup"}
BYTE_TILE = Serves(
    dtypes=frozenset({DType.U8, DType.I8, DType.I16, DType.I32, DType.F32}),
    mixed=True,
    kinds=frozenset({"cpu"}),
    formats=True,
    fuses=_FUSES,
    operands=8,
    features=frozenset({"byte_pairs"}),
)
"""What tiles of bytes serve."""
BYTE_CONVOLUTION = replace(BYTE_TILE, fuses=_FUSES | {"quantize"})
"""What convolutions of bytes serve: they round by steps that the network computes, too."""
_ENDS, _LONGER, _LISTED = {PLAIN: 6.0, EXTREMES: 2.0}, 12.0, 6.0
"""Multiply-adds that a vector of the result takes besides those of the sum, by what becomes of it, with more in
registers, by an operation of a list. Estimates."""
_HALVES = 2.0
"""How many times that are where a vector is two registers."""
_STAGE = 2.0
"""Multiply-adds that copying a vector of the input takes."""
_WORD = {16: 3.1, 8: 2.85}
"""Multiply-adds of floats in whose time four channels are multiplied without VNNI, by SIMD width: three instructions.
Emerald Rapids, of 960 channels."""
_LOOKED_AT = 1 / 16
"""Bytes of weights for one of the input, above which tickets without VNNI are of output channels. An estimate."""


BLOCK_WORDS = 4
"""Words of a block of channels."""
LANE_BYTES = 4 * LANES
FLOAT_SCRATCH = 16 * LANES * 4
"""Bytes of the floats of one block of channels of a register block."""


@descriptor("conv_bytes", library="bytes", micros=("micro_bytes",))
class ConvBytesDesc(ByteEnd, EndOperands, Descriptor):
    """Fields as in ``conv_bytes.cl``."""

    inp: Pointer
    weights: Pointer
    start: Pointer
    scale: Pointer
    bias: Pointer
    out: Pointer
    res: Pointer
    zero_point: Pointer
    widths: Long
    ids_0: Long
    ids_1: Long
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
    nb: Int
    blocks: Int
    groups: Int
    group_groups: Int
    lanes: Int
    chunks: Int
    row_chunks: Int
    chunk_width: Int
    ticket_chunks: Int
    ticket_groups: Int
    spans: Int
    batch_tickets: Int
    channel_major: Int
    mode: Int
    itemsize: Int
    spread: Int
    fetched: Int
    apart: Int
    listed: Int
    last: Float


def byte_formats(q: Query[QuantizedConvolution]) -> tuple[Formats, ...]:
    """Return the proposals of blocked operators on bytes."""
    blocked = feature_blocked(q.outputs[0].rank)
    own = (blocked, *(None,) * (q.arity - 1))
    return operand_proposals(q, own, range(q.arity, len(q.inputs)), blocked, q.outputs[0])


@frozen
class ByteSizes:
    """One problem in the driver's terms; ``width`` of a flat one is that of the whole plane.

    Attributes:
        words: Of a pixel's channels in a convolution group, of ``blocks`` output blocks.
        staged: Whether windows reach beyond the input.
        step: Multiply-adds of 16 lanes that one row of one convolution group takes.
    """

    x: Planes
    y: Planes
    height: int
    width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int]
    words: int
    blocks: int
    staged: bool
    block: Block
    step: float

    @property
    def groups(self) -> int:
        """Groups of output blocks of a convolution group."""
        return -(-self.blocks // self.block.nb)

    @property
    def group_bytes(self) -> int:
        """Bytes of the weights of one group of output blocks."""
        return self.words * prod(self.kernel) * self.block.nb * 4 * LANES


@frozen
class ByteTickets:
    """Which chunks and groups of output blocks a ticket takes; ``rows`` of the output at most."""

    chunks: TicketRanges
    groups: TicketRanges
    channel_major: bool

    @property
    def count(self) -> int:
        """Tickets of one image."""
        return self.chunks.count * self.groups.count


def parameters_refusal(q: Query[Any], outputs: int) -> str | None:
    """Say why weights, start, scale and bias are not read as they are, or return ``None``."""
    if not q.constant >= {1, 3, 4}:
        return "requires constant weights, scale and bias"
    plain = 2 in q.constant or (q.inputs[2].is_dense_plain and outputs % LANES == 0)
    return None if plain else f"reads starts that the network computes in whole vectors of {LANES}"


def packed_parameters(q: Query[Any]) -> dict[int, Format | Primitive]:
    """Return the formats of the constants that each output has one of."""
    return dict.fromkeys([slot for slot in (2, 3, 4) if slot in q.constant], PACKED_BIAS)


def packed_weights(q: Query[Any], nb: int, outputs: int = 0, channels: int = 1) -> dict[int, Format | Primitive]:
    """Return how weights are packed for *nb* blocks of output channels at a time, a word of input channels a lane.

    Args:
        outputs, channels: The axes.
    """
    order = tuple(range(q.inputs[1].rank)) if outputs < channels else (outputs, channels)
    return {1: Format(order, ((outputs, LANES * nb), (channels, LANES // BLOCK_WORDS)))}


def _flat(q: Query[QuantizedConvolution], x: Planes, y: Planes) -> bool:
    """Whether planes are single rows to a kernel of one element: nothing lies between their rows."""
    p = q.primitive
    if prod(q.inputs[1].shape[2:]) != 1 or prod(p.strides) != 1 or any(map(any, p.pads)):
        return False
    layouts = [q.inputs[s] for s in q.post_slots if s != lookup_of(q)]
    alike = all(row == pixel * y.width for _, _, row, pixel, _ in (operand_pitches(v, q.outputs[0]) for v in layouts))
    return y.height > 1 and x.one_row and y.one_row and alike


def _planes(layout: Layout) -> Planes:
    return planes(layout) if layout.format.blocks else pixel_rows(layout)


@remembered
def byte_sizes(q: Query[QuantizedConvolution]) -> ByteSizes:
    """Return the sizes of a problem on blocks of channels, or on pixels with their channels side by side."""
    x, y, p, w = _planes(q.inputs[0]), _planes(q.outputs[0]), q.primitive, q.inputs[1].shape
    flat, blocks, stride = _flat(q, x, y), -(-(w[0] // p.groups) // LANES), square(p.strides)
    height, width = (1, y.height * y.width) if flat else (y.height, y.width)
    before, vnni = [b for b, _ in p.pads], "vnni" in q.device.features
    words = -(-w[1] * BLOCK_WORDS // LANES)
    taps = words * prod(w[2:])
    staged = any(map(any, p.pads))
    by = stride[1] if x.x == LANES or staged else 0
    found = blocks_of(q.device.simd, BYTES, by, width, blocks, taps, whole=p.groups > 1)
    block = min(found, key=lambda b: b.cost)
    end = end_of(q)
    ends = _ENDS.get(end.mode, _LONGER) if isinstance(end, End) else _LONGER
    ends += _LISTED * len(listed_of(q, end)) if isinstance(end, End) else 0.0
    ends *= 1.0 if q.device.simd >= LANES else _HALVES
    each = 1.0 if vnni else _WORD[16 if q.device.simd >= 16 else 8]
    moved = _STAGE * -(-w[1] // LANES) * width * prod(stride) if staged else 0.0
    return ByteSizes(
        x=x,
        y=y,
        height=height,
        width=width,
        kernel=square(w[2:]),
        stride=stride,
        dilation=square(p.dilations),
        pads=(before[0], before[1]) if len(before) == 2 else (0, before[0]),
        words=words,
        blocks=blocks,
        staged=staged,
        block=block,
        step=each * block.cost * taps + ends * width * blocks + moved,
    )


def _row_seconds(q: Query[QuantizedConvolution], s: ByteSizes) -> float:
    """Return one worker's time for one row of every convolution group."""
    return s.step * q.primitive.groups * 2 * LANES / worker_flops(q.device)


def _tickets(q: Query[QuantizedConvolution], s: ByteSizes) -> ByteTickets:
    """Cut the work: by output channels where the weights outweigh the pixels, else by pixels; staged, by whole rows.

    Of maps that are worth sharing a ticket of output channels has the pixels of its worker's part.
    """
    device, groups, row_chunks = q.device, s.groups * q.primitive.groups, s.block.chunks
    row = _row_seconds(q, s)
    wanted = ticket_seconds(row * s.height * s.y.batch, device)
    # Without VNNI a ticket looks at all of its weights first.
    worth = 2.0 if "vnni" in device.features else _LOOKED_AT
    if groups >= 4 * device.workers and s.group_bytes * groups > worth * LANES * s.x.blocks * s.y.height * s.y.width:
        parts = map_parts(s.height * s.y.width, row_chunks * s.height, s.y.batch, device)
        each = split(groups, row * s.height / (groups * parts.count), wanted, device.workers // parts.count)
        return ByteTickets(parts, each, parts.count == 1)
    if s.staged and s.height > 1:
        rows = split(s.height, row, wanted, device.workers)
        return ByteTickets(TicketRanges(rows.count, rows.each * row_chunks), TicketRanges(1, groups), False)
    chunks = split(s.height * row_chunks, row / row_chunks, wanted, device.workers)
    return ByteTickets(chunks, TicketRanges(1, groups), False)


def products_seconds(q: Query[QuantizedConvolution]) -> float:
    """Estimate the time of the step."""
    s = byte_sizes(q)
    traffic = sum(x.nbytes for x in (*q.inputs, *written(q)))
    work = _row_seconds(q, s) * s.height * s.y.batch
    return step_seconds(q.device, work, traffic, _tickets(q, s).count * s.y.batch)


def products(q: Query[QuantizedConvolution]) -> Plan:
    """Return the step of a problem that nothing refuses."""
    s, p, end = byte_sizes(q), q.primitive, end_of(q)
    assert isinstance(end, End)
    t, x, y = _tickets(q, s), s.x, s.y
    table = ids(q.device.simd, BYTES, s.block.stride, s.block.nb)
    res = _planes(q.inputs[end.residual]) if end.residual is not None else None
    in_blocks = -(-s.words // BLOCK_WORDS)
    taps = s.words * prod(s.kernel)
    apart = (
        0
        if "vnni" in q.device.features
        else (taps * 4 + 67) // LANE_BYTES * LANE_BYTES + taps * s.block.nb * 2 * LANE_BYTES
    )
    flat = s.height < y.height
    desc = ConvBytesDesc(
        inp=x.at("in0"),
        weights=Ref("in1"),
        start=Ref("in2"),
        scale=Ref("in3"),
        bias=Ref("in4"),
        out=y.at("out0"),
        res=NULL if res is None else res.at(f"in{end.residual}"),
        zero_point=Ref("in5") if q.arity > 5 else NULL,
        widths=table.widths,
        ids_0=table.low,
        ids_1=table.high,
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
        nb=s.block.nb,
        blocks=s.blocks * p.groups,
        groups=s.groups * p.groups,
        group_groups=s.groups,
        lanes=y.lanes,
        chunks=s.block.chunks * s.height,
        row_chunks=s.block.chunks,
        chunk_width=s.block.chunk_width,
        ticket_chunks=t.chunks.each,
        ticket_groups=t.groups.each,
        spans=t.chunks.count,
        batch_tickets=t.count,
        channel_major=int(t.channel_major),
        mode=end.mode,
        itemsize=y.itemsize,
        spread=0,
        apart=apart,
        listed=int(end.last > 0),
        last=end.last,
        **operand_refs(q, end),
        **end.numbers,
    )
    rows = -(-t.chunks.each // s.block.chunks)
    scratch = END_BYTES + CHANNEL_NUMBERS * LANES * 4 * s.block.nb
    scratch += FLOAT_SCRATCH * s.block.nb if end.last > 0 or y.x != LANES else 0
    scratch += apart + (LANES * 4 * s.block.nb if q.arity > 5 else 0)
    if s.staged:
        widest = s.block.chunk_width or -(-s.width // s.block.chunks)
        pixels = min(s.width, t.chunks.each * widest) if s.height == 1 else s.width
        spread = zip((rows, pixels), s.stride, s.kernel, s.dilation, strict=True)
        scratch += in_blocks * LANES * prod((n - 1) * by + (k - 1) * d + 1 for n, by, k, d in spread)
    posts = blocked_posts(replace(q, fused=listed_of(q, end)))
    return Plan((Tile("conv_bytes", desc, t.count * y.batch, scratch, posts),))
