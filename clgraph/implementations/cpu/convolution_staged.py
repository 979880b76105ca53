"""Convolutions of blocked tensors with operations in front, applied to the strip of a ticket, on CPU devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import NOTING_TILE, square, weights_refusal
from clgraph.implementations.cpu.blocks import BLOCKED, Block, blocks_of, ids
from clgraph.implementations.cpu.convolution_weights import weight_distance, weights_waited
from clgraph.implementations.cpu.cost import (
    OWN_CACHE,
    TicketRanges,
    split,
    step_seconds,
    ticket_seconds,
    waited_seconds,
    worker_flops,
)
from clgraph.implementations.cpu.fused_operations import (
    blocked_posts,
    in_registers,
    operand_pitches,
    post_refusal,
    residual_overwritten,
    residual_ref,
)
from clgraph.implementations.cpu.geometry import (
    LANES,
    PACKED_BIAS,
    InPlanes,
    OutPlanes,
    Planes,
    ScaleShift,
    Surface,
    blocked_refusal,
    in_planes,
    out_planes,
    planes,
    surface,
)
from clgraph.implementations.cpu.staging import staged_formats, staging
from clgraph.ops.convolution import Convolution
from clgraph.selector.descriptor import NULL, Descriptor, Float, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

STAGED_BYTES = 192 * 1024
"""Scratch wanted for the input of a ticket, so that it stays in the second-level cache."""

KEPT_BYTES = 512 * 1024
"""Weights that stay in the second-level cache beside what is staged."""

MOST_BYTES = 512 * 1024
"""Most scratch for the smallest ticket there can be."""

STAGED_SHARE = 16
"""A ticket that stages what others do, too, has products for at least so many times as long."""


@descriptor("conv_staged", library="direct", micros=("micro_conv",))
class ConvStagedDesc(InPlanes, OutPlanes, Surface, ScaleShift, Descriptor):
    """Fields as in ``conv_staged.cl``."""

    inp: Pointer
    scale: Pointer
    shift: Pointer
    weights: Pointer
    bias: Pointer
    out: Pointer
    res: Pointer
    widths: Long
    ids_0: Long
    ids_1: Long
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
    res_n: Int
    res_c: Int
    res_y: Int
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
    low: Float
    high: Float


@frozen
class Strips:
    """One problem in the driver's terms; planes that are single rows to it have height 1.

    Attributes:
        take: Input rows, pixels from one staged one to the next; ``step``: staged ones from one window to the next.
        rows, chunks: How a ticket's rows, and its chunks of a row, are cut; ``tiers``: the groups of output blocks.
        groups, group_bytes: How many there are, and bytes of the weights of one.
    """

    height: int
    width: int
    blocks: int
    kernel: tuple[int, int]
    dilation: tuple[int, int]
    take: tuple[int, int]
    step: tuple[int, int]
    pads: tuple[int, int]
    block: Block
    rows: TicketRanges
    chunks: TicketRanges
    tiers: TicketRanges
    groups: int
    group_bytes: int

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights of all groups."""
        return self.group_bytes * self.groups

    @property
    def strips(self) -> int:
        """Parts of an image that tickets stage."""
        return self.rows.count * self.chunks.count

    @property
    def ticket_chunks(self) -> int:
        """Chunks of all rows of a ticket."""
        return self.rows.each * (self.chunks.each if self.chunks.count > 1 else self.block.chunks)

    def staged(self, rows: int, pixels: int) -> int:
        """Return the vectors of one channel block under so many output rows of so many pixels."""
        spread = [
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip((rows, pixels), self.step, self.kernel, self.dilation, strict=True)
        ]
        return prod(spread)

    @property
    def most_pixels(self) -> int:
        """Pixels of the widest ticket."""
        return self.width if self.chunks.count == 1 else self.pixels(self.chunks.each)

    def pixels(self, chunks: int) -> int:
        """Return the most pixels that so many chunks of a row have."""
        even = -(-self.width * chunks // self.block.chunks) + 1
        return min(self.width, chunks * self.block.chunk_width or even)

    @property
    def scratch(self) -> int:
        """Bytes that a ticket stages."""
        return self.staged_bytes(self.rows.each, self.most_pixels)

    def staged_bytes(self, rows: int, pixels: int) -> int:
        """Return the bytes of all channel blocks under so many output rows of so many pixels."""
        return self.blocks * LANES * 4 * self.staged(rows, pixels)

    @property
    def vectors(self) -> int:
        """Vectors staged for one image in all, those under the windows of two tickets twice."""
        each = self.staged(self.rows.each, self.most_pixels)
        return self.rows.count * self.chunks.count * each * self.blocks


def _flat(q: Query[Convolution], x: Planes, y: Planes) -> bool:
    """Whether planes are single rows to a kernel of one element and to every operand."""
    p = q.primitive
    if prod(q.inputs[1].shape[2:]) != 1 or prod(p.strides) != 1 or any(map(any, p.pads)):
        return False
    operands = [operand_pitches(q.inputs[s], q.outputs[0]) for s in q.post_slots]
    operands += [operand_pitches(q.inputs[s], q.inputs[0]) for f in q.pre for s in f.operands]
    gaps = not x.one_row or not y.one_row or any(y.halo)
    return not gaps and all(row == pixel * y.width for _, _, row, pixel, _ in operands)


def _vector_seconds(q: Query[Convolution]) -> float:
    """Return the time of staging one vector; one operation of the list takes as long."""
    return q.device.costs.unit("staging.vector") * (1 + len(staging(q).rest))


def _row_seconds(q: Query[Convolution], s: Strips) -> float:
    """Return one worker's time for an output row of every channel, what it stages included."""
    return _product_seconds(q, s) + s.tiers.count * s.step[0] * s.width * s.step[1] * s.blocks * _vector_seconds(q)


def _product_seconds(q: Query[Convolution], s: Strips) -> float:
    """Return what an output row takes once its input is staged."""
    return s.block.cost * q.inputs[1].shape[1] * prod(s.kernel) * 2 * LANES / worker_flops(q.device)


@remembered
def _strips(q: Query[Convolution]) -> Strips:
    x, y, p = planes(q.inputs[0]), planes(q.outputs[0]), q.primitive
    w, strides = q.inputs[1].shape, square(p.strides)
    flat, point = _flat(q, x, y), prod(w[2:]) == 1 and not any(map(any, p.pads))
    height, width = (1, y.height * y.width) if flat else (y.height, y.width)
    take, step = (strides, (1, 1)) if point else ((1, 1), strides)
    pads = tuple(before for before, _ in p.pads)
    found = blocks_of(q.device.simd, BLOCKED, step[1], width, y.blocks, w[1] * prod(w[2:]))
    one = TicketRanges(1, 1)
    sizes = [
        Strips(
            height=height,
            width=width,
            blocks=x.blocks,
            kernel=square(w[2:]),
            dilation=square(p.dilations),
            take=take,
            step=step,
            pads=(pads[0], pads[1]) if len(pads) == 2 else (0, pads[0]),
            block=block,
            rows=TicketRanges(height, 1),
            chunks=one,
            tiers=TicketRanges(1, -(-y.blocks // block.nb)),
            groups=-(-y.blocks // block.nb),
            group_bytes=4 * -(-w[1] // LANES) * LANES * prod(w[2:]) * block.nb * LANES,
        )
        for block in sorted(found, key=lambda b: b.cost)
    ]
    if sizes[0].weight_bytes <= OWN_CACHE:
        return _by_pixels(q, sizes[0])
    return min((cut for s in sizes for cut in (_by_pixels(q, s), *_by_groups(q, s))), key=lambda s: _seconds(q, s))


def _by_pixels(q: Query[Convolution], s: Strips) -> Strips:
    """Cut the map into tickets of all output channels."""
    height, row, workers = s.height, _row_seconds(q, s), q.device.workers
    wanted = 2 * ticket_seconds(row * height * q.outputs[0].shape[0], q.device)
    if height > 1 and s.scratch <= STAGED_BYTES:
        rows = split(height, row, wanted, workers).each
        while rows > 1 and s.staged_bytes(rows, s.width) > STAGED_BYTES:
            rows -= 1
        return replace(s, rows=TicketRanges(-(-height // rows), rows))
    each = split(s.block.chunks, row / s.block.chunks, wanted, workers).each
    while each > 1 and s.staged_bytes(s.rows.each, s.pixels(each)) > STAGED_BYTES:
        each -= 1
    return replace(s, chunks=TicketRanges(-(-s.block.chunks // each), each))


def _by_groups(q: Query[Convolution], s: Strips) -> Iterator[Strips]:
    """Cut the output channels into tickets of the whole map, which each stages, where there is room for it."""
    whole, work = replace(s, rows=TicketRanges(1, s.height)), _product_seconds(q, s) * s.height
    if whole.scratch <= STAGED_BYTES:
        staged = whole.vectors * _vector_seconds(q)
        wanted = max(2 * ticket_seconds(work * q.outputs[0].shape[0], q.device), STAGED_SHARE * staged)
        yield replace(whole, tiers=split(s.groups, work / s.groups, wanted, q.device.workers))


def _seconds(q: Query[Convolution], s: Strips) -> float:
    """Estimate the step, what workers wait for weights that go by the own caches of cores included."""
    strips = s.strips * q.outputs[0].shape[0]
    waited = weights_waited(q.device, s.group_bytes, s.groups, s.ticket_chunks, strips)
    traffic = sum(x.nbytes for x in (*q.inputs, *q.outputs)) - (q.inputs[1].nbytes if waited else 0)
    work = _row_seconds(q, s) * s.height * q.outputs[0].shape[0]
    return waited_seconds(step_seconds(q.device, work, traffic, strips * s.tiers.count), waited)


def _lines(s: Strips) -> int:
    """Return the lines of the next group's weights that a chunk fetches of each block: none that stay in a cache."""
    return -(-LANES * s.block.nb // s.ticket_chunks) if s.weight_bytes > KEPT_BYTES else 0


@implements(Convolution, name="convolution.staged", serves=replace(NOTING_TILE, prefuses=FUSABLE))
class ConvStaged(Implementation[Convolution]):
    """Applies what stands in front to the input of a ticket in scratch and runs register blocks on that."""

    @classmethod
    def limits(cls, q: Query[Convolution]) -> str | None:
        if not q.pre:
            return "serves convolutions with operations in front of them"
        if q.primitive.groups > 1:
            return "serves one group"
        refused = (
            blocked_refusal(q.inputs[0], "the input")
            or blocked_refusal(q.outputs[0], "the result")
            or weights_refusal(q, "packed blocks")
            or post_refusal(q)
        )
        if refused:
            return refused
        if (staged := _strips(q).scratch) > MOST_BYTES:
            return f"stages the input of a part of a row, {staged} bytes here, and serves at most {MOST_BYTES}"
        return None

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return staged_formats(q)

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format]:
        packed = Format(tuple(range(q.inputs[1].rank)), ((1, LANES), (0, LANES * _strips(q).block.nb)))
        return {1: packed, 2: PACKED_BIAS} if q.arity > 2 else {1: packed}

    @classmethod
    def overwrites(cls, q: Query[Convolution]) -> frozenset[int]:
        return residual_overwritten(q)

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        return _seconds(q, _strips(q))

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        s, x, y, registers = _strips(q), planes(q.inputs[0]), planes(q.outputs[0]), in_registers(q)
        before = staging(q, s.take[1])
        table = ids(q.device.simd, BLOCKED, s.block.stride, s.block.nb)
        res, res_n, res_c, res_y = residual_ref(q, registers)
        channels, weight_group = q.inputs[1].shape[1], s.group_bytes // 4
        lines, steps = _lines(s), -(-channels // LANES) * prod(s.kernel)
        flat = s.height != y.height or s.width != y.width
        desc = ConvStagedDesc(
            inp=x.at("in0"),
            weights=Ref("in1"),
            bias=Ref("in2") if q.arity > 2 else NULL,
            out=y.at("out0"),
            res=res,
            widths=table.widths,
            ids_0=table.low,
            ids_1=table.high,
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
            res_n=res_n,
            res_c=res_c,
            res_y=res_y,
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
            low=registers.low,
            high=registers.high,
            **before.fields,
        )
        post = (*before.rest, *blocked_posts(q, registers.taken))
        tickets = s.strips * s.tiers.count * y.batch
        return Plan((Tile("conv_staged", desc, tickets, scratch=s.scratch, post=post),))
