"""How convolutions of blocked tensors are cut into register blocks on CPU devices, and how long that takes."""

from __future__ import annotations

from functools import partial
from math import prod

from clgraph.core.frozen import frozen
from clgraph.core.memo import remembered, remembered_by
from clgraph.implementations.cpu.blocked import packed_for, square
from clgraph.implementations.cpu.blocks import BLOCKED, Block, blocks_of
from clgraph.implementations.cpu.convolution_weights import weights_waited
from clgraph.implementations.cpu.cost import operand_loads, waited_seconds, worker_flops
from clgraph.implementations.cpu.fused_operations import operand_pitches
from clgraph.implementations.cpu.geometry import LANES, Planes, planes
from clgraph.implementations.cpu.window_padding import present_share
from clgraph.ops.convolution import Convolution
from clgraph.selector.query import Query

RUN_HALF_CYCLES = 16.0
"""What the loop over the channels of one block under one element of the window takes to begin."""


@remembered
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
def sizes_of(q: Query[Convolution]) -> ConvolutionSizes:
    s, x, y = cheapest_sizes(q), planes(q.inputs[0]), planes(q.outputs[0])
    if s.x is x and s.y is y:
        return s
    groups, kernel, stride = s.convolution_groups, s.kernel, s.stride
    return ConvolutionSizes(x, y, s.flat, groups, s.channels, s.blocks, kernel, stride, s.block, s.present)


def _geometry(q: Query[Convolution]) -> tuple[object, ...]:
    w = q.inputs[1]
    return q.primitive, q.inputs[0].shape, w.shape, w.format, q.outputs[0].shape, _flat(q), q.device


@remembered
def cheapest_sizes(q: Query[Convolution]) -> ConvolutionSizes:
    """Return the sizes with the cheapest block, wherever the tensors lie: of weights that are packed, as they are."""
    # Weights are packed once formats are chosen: before that, problems are asked about in many of them.
    return _cheapest(q) if q.inputs[1].format.blocks else _known(q)


@remembered_by(_geometry)
def _known(q: Query[Convolution]) -> ConvolutionSizes:
    return _cheapest(q)


def _cheapest(q: Query[Convolution]) -> ConvolutionSizes:
    x, y = planes(q.inputs[0]), planes(q.outputs[0])
    w, groups, flat = q.inputs[1].shape, q.primitive.groups, _flat(q)
    blocks = -(-(w[0] // groups) // LANES)
    stride = square(q.primitive.strides)
    width = y.height * y.width if flat else y.width
    taps, lanes = w[1] * prod(w[2:]), 0 if groups > 1 or q.primitive.apart else y.lanes
    cut = partial(blocks_of, q.device.simd, BLOCKED, stride[1], width, blocks, taps)
    rows_of = partial(cut, whole=groups > 1, lanes=lanes, loads=operand_loads(q.device))
    packed = packed_for(q.inputs[1].format)
    found = (packed and rows_of(packed=packed)) or rows_of()
    skips = not (flat or q.primitive.apart)
    shares = [present_share(q, -(-y.width // block.chunks)) if skips else 1.0 for block in found]
    sized = partial(ConvolutionSizes, x, y, flat, groups, w[1], blocks, square(w[2:]), stride)
    sizes = [sized(block, present) for block, present in zip(found, shares, strict=True)]
    if len(sizes) == 1:
        return sizes[0]
    rows = y.batch * (1 if flat else y.height) * groups / q.device.workers
    return min(sizes, key=lambda s: waited_seconds(_product_seconds(q, s) * rows, waited_for_weights(q, s)))


def row_seconds(q: Query[Convolution], s: ConvolutionSizes) -> float:
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
    return _product_seconds(q, s) * (1 + begun / s.block.cost)


def _product_seconds(q: Query[Convolution], s: ConvolutionSizes) -> float:
    """Return the time of the products alone."""
    return s.block.cost * s.taps * s.present * _reached(q, s.block.nb) * 2 * LANES / worker_flops(q.device)


def weights_outweigh(s: ConvolutionSizes) -> bool:
    """Whether there are more bytes of weights than of pixels."""
    return s.group_bytes * s.groups > 4 * LANES * s.x.blocks * s.y.height * s.y.width


def waited_for_weights(q: Query[Convolution], s: ConvolutionSizes) -> float:
    """Return what workers wait for weights: with fewer bytes of pixels than of them a ticket has all chunks."""
    if not weights_outweigh(s):
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
