"""Convolutions of blocked tensors on CPU devices: dense ones and those in groups of whole blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod

from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.core.layout import Halo
from clgraph.core.memo import remembered, remembered_by
from clgraph.implementations.cpu.blocked import NOTING_TILE, packed_blocks, packing_refusal, square, wanted_formats
from clgraph.implementations.cpu.blocks import BLOCKED, Block, blocks_of, ids
from clgraph.implementations.cpu.convolution_weights import FETCHED_WEIGHTS, weight_distance, weights_waited
from clgraph.implementations.cpu.cost import (
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
    SlidingWindow,
    Surface,
    blocked_refusal,
    halo_refusal,
    out_planes,
    planes,
    surface,
    window,
)
from clgraph.implementations.cpu.window_padding import own_halo, present_halo, present_share
from clgraph.ops.convolution import APART, Convolution
from clgraph.selector.descriptor import NULL, Descriptor, Float, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

RUN_HALF_CYCLES = 16.0
"""What the loop over the channels of one block under one element of the window takes to begin."""


@descriptor("conv_fsv16", library="direct", micros=("micro_conv",))
class ConvFsv16Desc(InPlanes, OutPlanes, Surface, SlidingWindow, Descriptor):
    """Fields as in ``conv_fsv16.cl``."""

    inp: Pointer
    weights: Pointer
    bias: Pointer
    out: Pointer
    res: Pointer
    widths: Long
    ids_0: Long
    ids_1: Long
    in_g: Int
    in_x: Int
    step_y: Int
    step_x: Int
    res_n: Int
    res_c: Int
    res_y: Int
    channels: Int
    band_in: Int
    band_out: Int
    shuffled: Int
    outputs: Int
    in_height: Int
    in_width: Int
    pad_y: Int
    pad_x: Int
    pad: Int
    skips: Int
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
    lines: Int
    distance: Int
    weight_group: Int
    weight_ahead: Int
    low: Float
    high: Float


def _flat(q: Query[Convolution]) -> bool:
    """Whether planes are single rows to a kernel of one element: nothing lies between their rows."""
    p = q.primitive
    plain = prod(q.inputs[1].shape[2:]) == 1 and prod(p.strides) == 1 and not any(map(any, p.pads))
    return plain and planes(q.inputs[0]).one_row and flat_planes(q, planes(q.outputs[0]))


def flat_planes(q: Query[Convolution], y: Planes) -> bool:
    """Whether nothing lies between the rows of the result, and of what is read beside it."""
    if not y.one_row or any(y.halo):
        return False
    operands = [operand_pitches(q.inputs[s], q.outputs[0]) for s in q.post_slots]
    return y.height > 1 and all(row == pixel * y.width for _, _, row, pixel, _ in operands)


@frozen
class ConvolutionSizes:
    """Sizes of one problem in the driver's terms; ``width`` of a flat one is that of the whole plane.

    Attributes:
        convolution_groups: Groups of the convolution, of ``channels`` and ``blocks`` each.
        present: The share of the windows' elements that are read: less than 1 where those in the padding are skipped.
    """

    x: Planes
    y: Planes
    flat: bool
    convolution_groups: int
    channels: int
    blocks: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    block: Block
    present: float = 1.0

    @property
    def height(self) -> int:
        """Rows to compute."""
        return 1 if self.flat else self.y.height

    @property
    def width(self) -> int:
        """Pixels in a row."""
        return self.y.height * self.y.width if self.flat else self.y.width

    @property
    def taps(self) -> int:
        """Products in one output element."""
        return self.channels * prod(self.kernel)

    @property
    def groups(self) -> int:
        """Groups of output blocks, of which the last may have fewer."""
        return -(-self.blocks // self.block.nb) * self.convolution_groups

    @property
    def group_bytes(self) -> int:
        """Bytes of the weights of one group of output blocks."""
        return -(-self.channels // LANES) * LANES * prod(self.kernel) * self.block.nb * LANES * 4


@remembered
def _shape(q: Query[Convolution]) -> ConvolutionSizes:
    return replace(_cheapest(q), x=planes(q.inputs[0]), y=planes(q.outputs[0]))


def _geometry(q: Query[Convolution]) -> tuple[object, ...]:
    w = q.inputs[1]
    return q.primitive, q.inputs[0].shape, w.shape, w.format, q.outputs[0].shape, _flat(q), q.device


@remembered_by(_geometry)
def _cheapest(q: Query[Convolution]) -> ConvolutionSizes:
    """Return the sizes with the cheapest block, wherever the tensors lie: of weights that are packed, as they are."""
    x, y = planes(q.inputs[0]), planes(q.outputs[0])
    w, groups, flat = q.inputs[1].shape, q.primitive.groups, _flat(q)
    blocks = -(-(w[0] // groups) // LANES)
    stride = square(q.primitive.strides)
    width = y.height * y.width if flat else y.width
    found = blocks_of(q.device.simd, BLOCKED, stride[1], width, blocks, w[1] * prod(w[2:]), whole=groups > 1)
    found = tuple(b for b in found if q.inputs[1].format == packed_blocks(len(w), b.nb)) or found
    skips = not (flat or q.primitive.apart)
    shares = [present_share(q, -(-y.width // block.chunks)) if skips else 1.0 for block in found]
    sized = partial(ConvolutionSizes, x, y, flat, groups, w[1], blocks, square(w[2:]), stride)
    sizes = [sized(block, present) for block, present in zip(found, shares, strict=True)]
    rows = y.batch * (1 if flat else y.height) * groups / q.device.workers
    return min(sizes, key=lambda s: waited_seconds(_row_seconds(q, s) * rows, _waited(q, s)))


@frozen
class ConvolutionTickets:
    """Which chunks and groups a ticket takes, and whether it fetches weights ahead."""

    chunks: TicketRanges
    groups: TicketRanges
    channel_major: bool
    lines: int

    @property
    def count(self) -> int:
        """ConvolutionTickets of one image."""
        return self.chunks.count * self.groups.count


def _seconds(q: Query[Convolution], s: ConvolutionSizes) -> float:
    """Return one worker's time for one row and every output block of one convolution group, beginnings included.

    What the block costs holds for runs of 16 input channels; shorter ones, as of a picture, begin more often.
    """
    begun = (
        RUN_HALF_CYCLES
        * (-(-s.channels // LANES) / s.channels - 1 / LANES)
        * s.block.chunks
        * s.groups
        / s.convolution_groups
    )
    return _row_seconds(q, s) * (1 + begun / s.block.cost)


def _row_seconds(q: Query[Convolution], s: ConvolutionSizes) -> float:
    """Return the time of the products alone."""
    return s.block.cost * s.taps * s.present * _reached(q, s.block.nb) * 2 * LANES / worker_flops(q.device)


def _outweighing(s: ConvolutionSizes) -> bool:
    """Whether there are more bytes of weights than of pixels."""
    return s.group_bytes * s.groups > 4 * LANES * s.x.blocks * s.y.height * s.y.width


def _waited(q: Query[Convolution], s: ConvolutionSizes) -> float:
    """Return what workers wait for weights: with fewer bytes of pixels than of them a ticket has all chunks."""
    if not _outweighing(s):
        return 0.0
    return weights_waited(q.device, int(s.present * s.group_bytes), s.groups, s.block.chunks * s.height, s.y.batch)


def _reached(q: Query[Convolution], nb: int) -> float:
    """Return the part of the input channels that groups of *nb* blocks read, on average: less than all for bands."""
    bands, outputs = q.primitive.bands, q.outputs[0].shape[1]
    if bands == 1:
        return 1.0
    each, width = outputs // bands, nb * LANES
    met = [(min(first + width, outputs) - 1) // each + 1 - first // each for first in range(0, outputs, width)]
    return sum(met) / (bands * len(met))


def _tickets(q: Query[Convolution], s: ConvolutionSizes) -> ConvolutionTickets:
    """Cut the work: by output channels where the weights outweigh the pixels, else by pixels.

    Small maps have weights that come from memory once: a ticket takes all pixels of an output group and fetches the
    next group's weights while it computes. Large maps keep their weights cached.
    """
    device, total_groups = q.device, s.groups
    rows = s.height
    chunks = s.block.chunks * rows
    work = _seconds(q, s) * rows * q.primitive.groups
    chunk = work / (chunks * total_groups)
    wanted = ticket_seconds(work * s.y.batch, device)
    if total_groups >= 4 * device.workers and _outweighing(s):
        groups = split(total_groups, chunk * chunks, wanted, device.workers)
        lines = -(-LANES * s.block.nb // chunks) if s.group_bytes * total_groups > FETCHED_WEIGHTS else 0
        return ConvolutionTickets(TicketRanges(1, chunks), groups, True, lines)
    runs = split(chunks, chunk, wanted, device.workers)
    groups = split(total_groups, chunk * runs.each, wanted, 1)
    return ConvolutionTickets(runs, groups, False, 0)


@remembered
def _halo(q: Query[Convolution]) -> Halo:
    """Return the zeros that the windows reach into, as far as they are read."""
    return own_halo(q) if _cheapest(q).present == 1 else present_halo(own_halo(q), q.primitive.strides)


@implements(Convolution, name="convolution.fsv16", serves=replace(NOTING_TILE, meets=frozenset({APART})))
class ConvFsv16(Implementation[Convolution]):
    """Register blocks of 16-channel vectors; any kernel, stride, dilation and pads."""

    @classmethod
    def limits(cls, q: Query[Convolution]) -> str | None:
        x, out = q.inputs[0], q.outputs[0]
        groups = q.primitive.groups
        if groups > 1 and q.primitive.bands > 1:
            return "serves groups or bands, not both"
        if q.primitive.apart and x.nbytes > 1 << 32:
            return f"counts the floats of an image of merged groups in 32 bits, and the input has {x.nbytes} bytes"
        if groups > 1 and (x.shape[1] // groups % LANES or out.shape[1] // groups % LANES):
            return f"serves groups of whole {LANES}-channel blocks, not {x.shape[1]} channels in {groups} groups"
        return (
            blocked_refusal(x, "the input")
            or blocked_refusal(out, "the result")
            or packing_refusal(q, cls.weights)
            or halo_refusal(x, _halo(q))
            or post_refusal(q)
        )

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return wanted_formats(q, cls.weights)

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format]:
        packed = packed_blocks(q.inputs[1].rank, _shape(q).block.nb)
        return {1: packed, 2: PACKED_BIAS} if q.arity > 2 else {1: packed}

    @classmethod
    def halo(cls, q: Query[Convolution]) -> Mapping[int, Halo]:
        return {0: _halo(q)}

    @classmethod
    def overwrites(cls, q: Query[Convolution]) -> frozenset[int]:
        return residual_overwritten(q)

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        s = _shape(q)
        batch, waited = s.y.batch, _waited(q, s)
        work = _seconds(q, s) * s.height * q.primitive.groups * batch
        traffic = sum(x.nbytes for x in (*q.inputs, *q.outputs)) - (q.inputs[1].nbytes if waited else 0)
        return waited_seconds(step_seconds(q.device, work, traffic, _tickets(q, s).count * batch), waited)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        s = _shape(q)
        t, registers = _tickets(q, s), in_registers(q)
        x, y, p, skips = s.x, s.y, q.primitive, s.present < 1
        dilation, pads = square(p.dilations), own_halo(q)[2:]
        before = (pads[0][0], pads[1][0]) if len(pads) == 2 else (0, pads[0][0])
        res, res_n, res_c, res_y = residual_ref(q, registers)
        table = ids(q.device.simd, BLOCKED, s.block.stride, s.block.nb)
        groups = s.groups
        weight_group = s.group_bytes // 4
        steps = -(-s.channels // LANES) * prod(s.kernel)
        desc = ConvFsv16Desc(
            inp=x.at("in0") if skips else x.at("in0", -before[0], -before[1]),
            weights=Ref("in1"),
            bias=Ref("in2") if q.arity > 2 else NULL,
            out=y.at("out0"),
            res=res,
            widths=table.widths,
            ids_0=table.low,
            ids_1=table.high,
            in_n=x.n,
            in_g=x.c * (s.channels // LANES),
            in_c=x.c,
            in_y=dilation[0] * x.y,
            in_x=dilation[1] * LANES,
            step_y=s.stride[0] * x.y,
            step_x=s.stride[1] * LANES,
            **out_planes(y),
            res_n=res_n,
            res_c=res_c,
            res_y=res_y,
            channels=s.channels,
            band_in=s.channels // p.bands if p.apart else 0,
            band_out=y.channels // p.bands if p.apart else 0,
            shuffled=p.shuffled,
            outputs=y.channels,
            **window(s.kernel, s.stride, dilation),
            in_height=x.height,
            in_width=x.width,
            pad_y=before[0],
            pad_x=before[1],
            pad=before[0] * x.y + before[1] * LANES,
            skips=int(skips),
            **surface(s.height, s.width, y.halo),
            nb=s.block.nb,
            blocks=s.blocks * p.groups,
            groups=groups,
            group_groups=groups // p.groups,
            lanes=y.lanes,
            chunks=s.block.chunks * s.height,
            row_chunks=s.block.chunks,
            chunk_width=s.block.chunk_width,
            ticket_chunks=t.chunks.each,
            ticket_groups=t.groups.each,
            spans=t.chunks.count,
            batch_tickets=t.count,
            channel_major=int(t.channel_major),
            lines=t.lines,
            distance=weight_distance(weight_group, t.chunks.each),
            weight_group=weight_group,
            weight_ahead=steps * t.lines * LANES,
            low=registers.low,
            high=registers.high,
        )
        listed = 12 * x.channels if p.apart else 12 * steps if skips else 0
        return Plan((Tile("conv_fsv16", desc, t.count * y.batch, listed, blocked_posts(q, registers.taken)),))
