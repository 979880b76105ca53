"""Convolutions of bfloat16 in pairs of channels: their sizes, the tickets that they are cut into, what these take."""

from __future__ import annotations

from math import prod

from clgraph.core.frozen import frozen
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import square, square_pads
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.convolution_sizes import RUN_HALF_CYCLES, flat_planes
from clgraph.implementations.cpu.cost import TicketRanges, runs, split, ticket_seconds, worker_flops
from clgraph.implementations.cpu.geometry import LANES, Planes, planes
from clgraph.implementations.cpu.matmul_instances import GROUP
from clgraph.implementations.cpu.pair_blocks import PairBlock, pair_block, tile_seconds
from clgraph.ops.convolution import Convolution
from clgraph.selector.query import Query

_BLOCKS = GROUP // LANES
_ENTRY = 40.0
"""Half-cycles that entering an instance takes."""
_PARTIAL = 8
"""Vectors in whose time one that is not whole is rounded."""


@frozen
class PairSizes:
    """One problem in the drivers' terms.

    Attributes:
        height, width: Rows and pixels to compute; one row where nothing lies between those of the planes.
        taken: Every how many rows and pixels of the input are rounded.
        stride: From one output pixel's window to the next, in those.
        rounded: Rows and pixels of an image that are rounded, zeros included; of ``depth`` channels each.
        runs: Of neighbours in a window, along both axes, of ``pairs`` each.
    """

    x: Planes
    y: Planes
    height: int
    width: int
    taken: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int]
    rounded: tuple[int, int]
    depth: int
    pairs: int
    runs: tuple[int, int]
    block: PairBlock

    @property
    def chunks(self) -> int:
        """Parts of a row."""
        return -(-self.width // self.block.rows)

    @property
    def groups(self) -> int:
        """Groups of output channels."""
        return -(-self.y.blocks // _BLOCKS)

    @property
    def steps(self) -> int:
        """Pairs that a sum has."""
        return self.pairs * prod(self.runs)


@remembered
def pair_sizes(q: Query[Convolution]) -> PairSizes:
    """Return the problem in the drivers' terms."""
    x, y, p = planes(q.inputs[0]), planes(q.outputs[0]), q.primitive
    kernel, stride, dilation = (square(v) for v in (q.inputs[1].shape[2:], p.strides, p.dilations))
    (top, _), (left, _) = square_pads(p.pads)
    single = prod(kernel) == 1
    taken, step = (stride, (1, 1)) if single else ((1, 1), stride)
    spread = zip((y.height, y.width), step, kernel, dilation, strict=True)
    rows, pixels = ((size - 1) * by + (taps - 1) * apart + 1 for size, by, taps, apart in spread)
    depth = -(-x.channels // 2) * 2
    joined = dilation[1] == 1
    flat = single and flat_planes(q, y)
    pairs = depth // 2 * (kernel[1] if joined else 1)
    return PairSizes(
        x=x,
        y=y,
        height=1 if flat else y.height,
        width=y.height * y.width if flat else y.width,
        taken=taken,
        stride=step,
        dilation=dilation,
        pads=(top, left),
        rounded=(rows, pixels),
        depth=depth,
        pairs=pairs,
        runs=(kernel[0], 1 if joined else kernel[1]),
        block=pair_block(q.device, pairs),
    )


@frozen
class PairTickets:
    """Which chunks and groups of output channels a ticket takes, and the rows that one of the first step rounds."""

    rounding: TicketRanges
    chunks: TicketRanges
    groups: TicketRanges

    @property
    def count(self) -> int:
        """Tickets of one image."""
        return self.chunks.count * self.groups.count


def chunk_seconds(q: Query[Convolution], s: PairSizes) -> float:
    """Return one worker's time for one chunk of one group of output channels."""
    if s.block.tiles_id >= 0:
        return tile_seconds(q.device, s.steps, min(s.width, s.block.rows))
    pixels = s.width / s.chunks
    products = _BLOCKS * pixels * 2 / q.device.costs.bf16_products
    pair = max(half_cycles(_BLOCKS, round(pixels)), products)
    return (
        (pair * s.steps + RUN_HALF_CYCLES * prod(s.runs) + _ENTRY + 2 * _BLOCKS * pixels)
        * 2
        * LANES
        / worker_flops(q.device)
    )


def row_seconds(q: Query[Convolution], s: PairSizes) -> float:
    """Return one worker's time for rounding a row; lanes of a vector that is not whole are written one by one."""
    vectors = s.depth // LANES + _PARTIAL * (s.depth % LANES > 0)
    return s.rounded[1] * vectors * q.device.costs.unit("copy.vector")


def pair_tickets(q: Query[Convolution], s: PairSizes) -> PairTickets:
    """Cut the work: by output channels where the weights outweigh the pixels, else by pixels."""
    device, chunks, chunk = q.device, s.chunks * s.height, chunk_seconds(q, s)
    rounding = runs(s.rounded[0] * s.y.batch, row_seconds(q, s), device)
    wanted = ticket_seconds(chunk * chunks * s.groups * s.y.batch, device)
    if s.groups >= 4 * device.workers and q.inputs[1].count > s.depth * prod(s.rounded):
        groups = split(s.groups, chunk * chunks, wanted, device.workers)
        return PairTickets(rounding, TicketRanges(1, chunks), groups)
    spans = split(chunks, chunk, wanted, device.workers)
    return PairTickets(rounding, spans, split(s.groups, chunk * spans.each, wanted, 1))
