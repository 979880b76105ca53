"""Tile sizes of matrix products in local memory: their choice by problem and device, and estimated time."""

from __future__ import annotations

from clgraph.core.frozen import frozen
from clgraph.implementations.gpu.products import ProductSizes
from clgraph.implementations.portable.matmul import EMULATED_LOCAL, EMULATED_SHARE
from clgraph.selector.jit import Jit
from clgraph.selector.query import DeviceInfo

SIDE = 16
"""Work-items of a group along each axis."""
STEP = 16
"""Elements of k that lie in local memory at once."""
_EFFICIENCY = {(1, 1): 0.35, (1, 2): 0.42, (2, 1): 0.42, (2, 2): 0.5}
"""Shares of the peak: more sums a work-item are more multiplications for each load of local memory. Estimates."""

DIRECT = 4
"""Rows, or pixels, of a work-item of the kernels without local memory."""


@frozen
class LocalTile:
    """What a group of work-items makes: ``64 rows x 64 columns`` results.

    Attributes:
        seconds: Estimate for all groups, without the launch.
    """

    rows: int
    columns: int
    seconds: float

    @property
    def sizes(self) -> tuple[int, int]:
        """Results along each axis."""
        return 64 * self.rows, 64 * self.columns

    def jit(self, jit: Jit) -> Jit:
        """Return the preamble with the tile in it."""
        return jit.define(ROWS=self.rows, COLUMNS=self.columns)


def tile_refusal(device: DeviceInfo) -> str | None:
    """Say why *device* cannot run any tile."""
    if device.max_work_group < SIDE * SIDE:
        return f"requires groups of {SIDE * SIDE} work-items, the device has {device.max_work_group}"
    if device.local_bytes < (needed := _local_bytes(1, 1)):
        return f"requires {needed} bytes of local memory, the device has {device.local_bytes}"
    return None


def direct_refusal(device: DeviceInfo) -> str | None:
    """Say why *device* needs no kernel without local memory."""
    if EMULATED_LOCAL in device.features or tile_refusal(device) is not None:
        return None
    return "is for devices whose local memory is ordinary memory, or whose groups are too small for tiles"


def best_tile(device: DeviceInfo, sizes: ProductSizes) -> LocalTile:
    """Return the tile that makes products of *sizes* soonest.

    Whole tiles are computed, as many at once as the device has compute units.
    """
    units = max(device.compute_units, 1)
    slower = EMULATED_SHARE if EMULATED_LOCAL in device.features else 1.0
    found = []
    for (r, c), efficiency in _EFFICIENCY.items():
        if _local_bytes(r, c) > device.local_bytes and (r, c) != (1, 1):
            continue
        tiles = -(-sizes.rows // (64 * r)) * -(-sizes.columns // (64 * c)) * sizes.count
        work = 2.0 * 64 * r * 64 * c * -(-sizes.terms // STEP) * STEP
        found.append(LocalTile(r, c, -(-tiles // units) * work * units / (device.flops * efficiency * slower)))
    return min(found, key=lambda tile: tile.seconds)


def _local_bytes(rows: int, columns: int) -> int:
    return STEP * ((64 * rows + 4) + (64 * columns + 4)) * 4
