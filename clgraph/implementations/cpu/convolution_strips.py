"""What tickets of a staged convolution take: strips of maps, or groups of output channels, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

from clgraph.core.frozen import changed, frozen
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import square, square_pads
from clgraph.implementations.cpu.blocks import BLOCKED, Block, blocks_of
from clgraph.implementations.cpu.convolution_weights import weights_waited
from clgraph.implementations.cpu.cost import (
    OWN_CACHE,
    TicketRanges,
    operand_loads,
    split,
    step_seconds,
    ticket_seconds,
    waited_seconds,
    worker_flops,
)
from clgraph.implementations.cpu.fused_operations import operand_pitches
from clgraph.implementations.cpu.geometry import LANES, Planes, planes
from clgraph.implementations.cpu.staging import staging
from clgraph.ops.convolution import Convolution
from clgraph.selector.query import Query

STAGED_BYTES = 192 * 1024
"""Scratch wanted for the input of a ticket, so that it stays in the second-level cache."""

STAGED_SHARE = 16
"""A ticket that stages what others do, too, has products for at least so many times as long."""


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
        narrow, wider = divmod(self.width, self.block.chunks)
        return min(self.width, chunks * self.block.chunk_width or chunks * narrow + min(chunks, wider))

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
def strips_of(q: Query[Convolution]) -> Strips:
    """Return how the problem is cut, so that it takes the least time."""
    x, y, p = planes(q.inputs[0]), planes(q.outputs[0]), q.primitive
    w, strides = q.inputs[1].shape, square(p.strides)
    flat, point = _flat(q, x, y), prod(w[2:]) == 1 and not any(map(any, p.pads))
    height, width = (1, y.height * y.width) if flat else (y.height, y.width)
    take, step = (strides, (1, 1)) if point else ((1, 1), strides)
    (top, _), (left, _) = square_pads(p.pads)
    cut = partial(blocks_of, q.device.simd, BLOCKED, step[1], width, y.blocks, w[1] * prod(w[2:]))
    found = cut(lanes=y.lanes, loads=operand_loads(q.device))
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
            pads=(top, left),
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
    return min(
        (cut for s in sizes for cut in (_by_pixels(q, s), *_by_groups(q, s))), key=lambda s: strips_seconds(q, s)
    )


def _by_pixels(q: Query[Convolution], s: Strips) -> Strips:
    """Cut the map into tickets of all output channels."""
    height, row, workers = s.height, _row_seconds(q, s), q.device.workers
    wanted = 2 * ticket_seconds(row * height * q.outputs[0].shape[0], q.device)
    if height > 1 and s.scratch <= STAGED_BYTES:
        rows = split(height, row, wanted, workers).each
        while rows > 1 and s.staged_bytes(rows, s.width) > STAGED_BYTES:
            rows -= 1
        return changed(s, rows=TicketRanges(-(-height // rows), rows))
    each = split(s.block.chunks, row / s.block.chunks, wanted, workers).each
    while each > 1 and s.staged_bytes(s.rows.each, s.pixels(each)) > STAGED_BYTES:
        each -= 1
    return changed(s, chunks=TicketRanges(-(-s.block.chunks // each), each))


def _by_groups(q: Query[Convolution], s: Strips) -> Iterator[Strips]:
    """Cut the output channels into tickets of the whole map, which each stages, where there is room for it."""
    whole, work = changed(s, rows=TicketRanges(1, s.height)), _product_seconds(q, s) * s.height
    if whole.scratch <= STAGED_BYTES:
        staged = whole.vectors * _vector_seconds(q)
        wanted = max(2 * ticket_seconds(work * q.outputs[0].shape[0], q.device), STAGED_SHARE * staged)
        yield changed(whole, tiers=split(s.groups, work / s.groups, wanted, q.device.workers))


def strips_seconds(q: Query[Convolution], s: Strips) -> float:
    """Estimate the step, what workers wait for weights that go by the own caches of cores included."""
    strips = s.strips * q.outputs[0].shape[0]
    waited = weights_waited(q.device, s.group_bytes, s.groups, s.ticket_chunks, strips)
    traffic = sum(x.nbytes for x in (*q.inputs, *q.outputs)) - (q.inputs[1].nbytes if waited else 0)
    work = _row_seconds(q, s) * s.height * q.outputs[0].shape[0]
    return waited_seconds(step_seconds(q.device, work, traffic, strips * s.tiers.count), waited)
