"""Sizes, micro-kernels and tickets of convolutions by Strassen's algorithm on CPU devices."""

from __future__ import annotations

from clgraph.core.frozen import frozen
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.convolution_weights import FETCHED_WEIGHTS
from clgraph.implementations.cpu.cost import (
    TicketRanges,
    split,
    ticket_seconds,
    worker_flops,
)
from clgraph.implementations.cpu.geometry import (
    LANES,
    Planes,
    planes,
)
from clgraph.ops.convolution import Convolution
from clgraph.ops.strassen_weights import PRODUCTS
from clgraph.selector.micro_kernels import Micro, micro_family
from clgraph.selector.query import Query

STRASSEN_FILE = "convolution/micro_strassen.cl"
_WIDTHS = {16: (2, (14, 12, 10, 8)), 8: (1, (6, 5, 4))}
"""Blocks of output channels in half a group and pixels of the instances, by SIMD width."""

MICROS = micro_family(
    "micro_strassen",
    {simd: [Micro.of(STRASSEN_FILE, NB=nb, UR=ur) for ur in widths] for simd, (nb, widths) in _WIDTHS.items()},
)

PRODUCT_HALF_CYCLES = 140.0
"""What one of the seven products of a block takes to begin and to end."""
SUM_HALF_CYCLES = 6.0
"""What a vector of sums or copies takes."""


@frozen
class StrassenSizes:
    """Sizes of one problem.

    Attributes:
        operands: What is made beforehand of a pair of rows: 4 sums of half the channels, and with a stride 3 copies.
        nb, wide: Blocks of output channels in half a group, pixels of a row in a block of registers.
        chunks: Pairs of such runs of pixels in an image.
        groups: Of output channels.
        product_seconds, sum_seconds: One worker's for a chunk of a group; for the sums of a chunk.
    """

    x: Planes
    y: Planes
    operands: int
    nb: int
    wide: int
    chunks: int
    groups: int
    product_seconds: float
    sum_seconds: float

    @property
    def copied(self) -> bool:
        """Whether the products read no pixels but what is made beforehand."""
        return self.operands == PRODUCTS

    @property
    def group_bytes(self) -> int:
        """Bytes of the weights of a group."""
        return 4 * PRODUCTS * self.x.channels // 2 * self.nb * LANES

    @property
    def sum_bytes(self) -> int:
        """Bytes of the sums of an image."""
        return 4 * self.operands * self.wide * self.x.channels // 2 * self.chunks


def strassen_blocking(q: Query[Convolution]) -> tuple[int, int]:
    """Return the blocks of half a group and the widest instance that cuts rows into equal parts; 0 for none."""
    nb, widths = _WIDTHS[16 if q.device.simd >= 16 else 8]
    return nb, next((w for w in widths if q.outputs[0].shape[-1] % w == 0), 0)


@remembered
def strassen_sizes(q: Query[Convolution]) -> StrassenSizes:
    """Return the sizes of a problem."""
    x, y, (nb, wide) = planes(q.inputs[0]), planes(q.outputs[0]), strassen_blocking(q)
    second = 2 * LANES / worker_flops(q.device)
    product = PRODUCTS * (x.channels / 2 * half_cycles(nb, wide) + PRODUCT_HALF_CYCLES)
    operands = 4 if q.primitive.strides == (1, 1) else PRODUCTS
    chunks, groups = y.height // 2 * (y.width // wide), y.channels // (2 * nb * LANES)
    sums = operands * wide * x.blocks / 2 * SUM_HALF_CYCLES
    return StrassenSizes(x, y, operands, nb, wide, chunks, groups, product * second, sums * second)


@frozen
class StrassenTickets:
    """Which chunks and groups a ticket takes, and the lines that it fetches of the next group's weights."""

    chunks: TicketRanges
    groups: TicketRanges
    lines: int

    @property
    def count(self) -> int:
        """Tickets of an image."""
        return self.chunks.count * self.groups.count


@remembered
def strassen_tickets(q: Query[Convolution]) -> StrassenTickets:
    """Cut the work by groups, whose weights a ticket then reads once; by chunks too where that leaves workers idle."""
    s, device = strassen_sizes(q), q.device
    wanted = ticket_seconds(s.product_seconds * s.chunks * s.groups * s.y.batch, device)
    if s.groups >= 4 * device.workers or s.groups % device.workers == 0:
        groups = split(s.groups, s.product_seconds * s.chunks, wanted, device.workers)
        lines = -(-s.nb * LANES // s.chunks) if s.group_bytes > FETCHED_WEIGHTS else 0
        return StrassenTickets(TicketRanges(1, s.chunks), groups, lines)
    chunks = split(s.chunks, s.product_seconds * s.groups, wanted, device.workers)
    return StrassenTickets(chunks, split(s.groups, s.product_seconds * chunks.each, wanted, 1), 0)
