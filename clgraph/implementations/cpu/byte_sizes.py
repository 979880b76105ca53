"""Convolutions and matrix products of bytes on CPU devices: their sizes, how they are cut into tickets, their cost."""

from __future__ import annotations

from math import prod

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.block_tickets import BlockTickets
from clgraph.implementations.cpu.blocked import square, square_pads
from clgraph.implementations.cpu.blocks import BYTES, Block, blocks_of
from clgraph.implementations.cpu.byte_end_fields import BYTES as PLAIN
from clgraph.implementations.cpu.byte_end_fields import (
    EXTREMES,
    End,
)
from clgraph.implementations.cpu.byte_ends import end_of, listed_of, lookup_of, written
from clgraph.implementations.cpu.byte_operands import BLOCK_WORDS
from clgraph.implementations.cpu.cost import TicketRanges, map_parts, split, step_seconds, ticket_seconds, worker_flops
from clgraph.implementations.cpu.fused_operations import operand_pitches
from clgraph.implementations.cpu.geometry import LANES, Planes, pixel_rows, planes
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.selector.query import DeviceInfo, Query

_ENDS, _LONGER, _LISTED = {PLAIN: 6.0, EXTREMES: 2.0}, 12.0, 6.0
"""Multiply-adds that a vector of the result takes besides those of the sum, by what becomes of it, with more in
registers, by an operation of a list. Estimates."""
_HALVES = 2.0
"""How many times that are where a vector is two registers."""
_STAGE, _SUMMED = 2.0, 4.0
"""Multiply-adds that copying a vector of the input takes, and adding it to the sum of its pixel's window. Estimates."""
_SHORT_PRODUCTS = 1.6, 0.9
"""Multiply-adds of bytes by ``pmaddwd`` on 128 bits in the time of one of float32 on 128 and on 256. With them,
convolutions of bytes and of floats take the same share of their estimates: 0.62 to 0.70 and 0.63 to 0.70 on 128 bits,
0.93 to 1.01 and 0.95 on 256 (Emerald Rapids, PP-OCR detection)."""
_LOOKED_AT = 1 / 16
"""Bytes of weights for one of the input, above which tickets without VNNI are of output channels. An estimate."""


def byte_products(device: DeviceInfo) -> float:
    """Return the multiply-adds of bytes in the time of one of float32, without VNNI."""
    return device.costs.byte_products if "byte_pairs" in device.features else _SHORT_PRODUCTS[device.simd > 4]


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


def _flat(q: Query[QuantizedConvolution], x: Planes, y: Planes) -> bool:
    """Whether planes are single rows to a kernel of one element: nothing lies between their rows."""
    p = q.primitive
    if prod(q.inputs[1].shape[2:]) != 1 or prod(p.strides) != 1 or any(map(any, p.pads)):
        return False
    layouts = [q.inputs[s] for s in q.post_slots if s != lookup_of(q)]
    alike = all(row == pixel * y.width for _, _, row, pixel, _ in (operand_pitches(v, q.outputs[0]) for v in layouts))
    return y.height > 1 and x.one_row and y.one_row and alike


def byte_planes(layout: Layout) -> Planes:
    """Return the planes of blocks of channels, or the rows of pixels with their channels side by side."""
    return planes(layout) if layout.format.blocks else pixel_rows(layout)


@remembered
def byte_sizes(q: Query[QuantizedConvolution]) -> ByteSizes:
    """Return the sizes of a problem on blocks of channels, or on pixels with their channels side by side."""
    x, y, p, w = byte_planes(q.inputs[0]), byte_planes(q.outputs[0]), q.primitive, q.inputs[1].shape
    flat, blocks, stride = _flat(q, x, y), -(-(w[0] // p.groups) // LANES), square(p.strides)
    height, width = (1, y.height * y.width) if flat else (y.height, y.width)
    (top, _), (left, _) = square_pads(p.pads)
    vnni = "vnni" in q.device.features
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
    each = 1.0 if vnni else 4.0 / byte_products(q.device)
    moved = _STAGE * -(-w[1] // LANES) * width * prod(stride) if staged else 0.0
    moved += _SUMMED * -(-w[1] // LANES) * prod(w[2:]) * width if p.shift else 0.0
    return ByteSizes(
        x=x,
        y=y,
        height=height,
        width=width,
        kernel=square(w[2:]),
        stride=stride,
        dilation=square(p.dilations),
        pads=(top, left),
        words=words,
        blocks=blocks,
        staged=staged,
        block=block,
        step=each * block.cost * taps + ends * width * blocks + moved,
    )


def _row_seconds(q: Query[QuantizedConvolution], s: ByteSizes) -> float:
    """Return one worker's time for one row of every convolution group."""
    return s.step * q.primitive.groups * 2 * LANES / worker_flops(q.device)


def tickets(q: Query[QuantizedConvolution], s: ByteSizes) -> BlockTickets:
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
        return BlockTickets(parts, each, parts.count == 1)
    if s.staged and s.height > 1:
        rows = split(s.height, row, wanted, device.workers)
        return BlockTickets(TicketRanges(rows.count, rows.each * row_chunks), TicketRanges(1, groups), False)
    chunks = split(s.height * row_chunks, row / row_chunks, wanted, device.workers)
    return BlockTickets(chunks, TicketRanges(1, groups), False)


def products_seconds(q: Query[QuantizedConvolution]) -> float:
    """Estimate the time of the step."""
    s = byte_sizes(q)
    traffic = sum(x.nbytes for x in (*q.inputs, *written(q)))
    work = _row_seconds(q, s) * s.height * s.y.batch
    return step_seconds(q.device, work, traffic, tickets(q, s).count * s.y.batch)
