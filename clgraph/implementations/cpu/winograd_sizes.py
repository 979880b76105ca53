"""Sizes and tickets of convolutions by Winograd's algorithm on CPU devices."""

from __future__ import annotations

from clgraph.core.frozen import frozen
from clgraph.core.layout import Halo
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.cost import TicketRanges, split, ticket_seconds
from clgraph.implementations.cpu.geometry import (
    LANES,
    Planes,
    planes,
)
from clgraph.implementations.cpu.winograd_blocking import Blocking, best_blocking, transform_share
from clgraph.ops.convolution import Convolution
from clgraph.ops.winograd_convolution import WinogradConvolution
from clgraph.ops.winograd_weights import positions_of
from clgraph.selector.query import DeviceInfo, Query

STEP = 4
"""Pixels of the input from one tile to the next. A tile makes as many of the result, or half of them with stride 2."""


@frozen
class WinogradSizes:
    """Sizes of one problem: planes of input and result, tiles of a row, pixels of the result along a tile.

    With a dilation the pixels that many apart are an image of their own, of ``phase_rows`` rows of tiles: a phase.
    """

    x: Planes
    y: Planes
    phase_rows: int
    tiles_x: int
    dilation: int
    edge: int
    blocking: Blocking

    @property
    def tiles_y(self) -> int:
        """Rows of tiles of an image, those of all phases."""
        return self.dilation**2 * self.phase_rows

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.y.batch * self.tiles_y * self.tiles_x


@remembered
def winograd_sizes(q: Query[Convolution]) -> WinogradSizes:
    """Return the sizes of a problem."""
    x, y = planes(q.inputs[0]), planes(q.outputs[0])
    edge, positions = STEP // q.primitive.strides[0], positions_of(q.primitive.strides[0])
    dilation = q.primitive.dilations[0]
    rows, columns = (-(-size // (dilation * edge)) for size in (y.height, y.width))
    tiles = y.batch * dilation**2 * rows * columns
    moved = q.inputs[0].nbytes + q.outputs[0].nbytes
    transformed = isinstance(q.primitive, WinogradConvolution)
    vectors = q.inputs[1].shape[-1] // LANES if transformed else None
    blocking = best_blocking(q.device, x.channels, y.channels, tiles, moved, positions, vectors)
    return WinogradSizes(x, y, rows, columns, dilation, edge, blocking)


def tile_halo(q: Query[Convolution]) -> Halo:
    """Return the zeros that the tiles of the input reach into, those of the last, partial tiles included."""
    p, x, y = q.primitive, q.inputs[0].shape[2:], q.outputs[0].shape[2:]
    stride, dilation = p.strides[0], p.dilations[0]
    around = []
    for (before, _), size, extent in zip(p.pads, y, x, strict=True):
        read = -(-size * stride // (dilation * STEP)) * STEP + 3 - stride
        around.append((before, max(0, dilation * read - before - extent)))
    return ((0, 0), (0, 0), *around)


def input_runs(device: DeviceInfo, planes_in: int, blocking: Blocking) -> TicketRanges:
    """Cut the channel blocks of a block of tiles into tickets."""
    one = blocking.size * device.costs.unit("winograd.input") * transform_share(device, blocking.positions)
    return split(planes_in, one, ticket_seconds(one * planes_in * blocking.blocks, device), 1)
