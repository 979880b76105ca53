"""Matrix units by vendor: which one a device has, the tiles of its kernel, and estimated time."""

from __future__ import annotations

from collections.abc import Callable

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.implementations.gpu.products import ProductSizes
from clgraph.implementations.gpu.vectors import WIDE_RANK
from clgraph.selector.general import float_jit
from clgraph.selector.plan import Argument, Launch
from clgraph.selector.query import DeviceInfo

MULTIPLE = 8
"""Halves of 16 bytes: rows start at multiples of them."""


@frozen
class Unit:
    """What multiplies, in a sub-group or wave of *lanes*.

    Attributes:
        feature: Of a device that has it, beside that of the vendor; none: all others have it.
        words: Words of two halves that a lane has of a row, where that differs.
        terms: The multiple of terms that it requires.
        speed: Of its products, in peaks of float32. An estimate.
    """

    feature: str
    lanes: int
    words: int
    terms: int
    speed: float


@frozen
class UnitTile:
    """What a group makes.

    Attributes:
        group: Work-items.
        defines: Parameters of the kernel.
        share: Of the units' speed that it reaches. An estimate.
    """

    rows: int
    columns: int
    group: tuple[int, int]
    local_bytes: int
    defines: tuple[tuple[str, int], ...]
    share: float

    def fits(self, device: DeviceInfo) -> bool:
        """Whether *device* has room for it."""
        items = self.group[0] * self.group[1]
        return items <= device.max_work_group and self.local_bytes <= device.local_bytes


@frozen
class MatrixUnits:
    """The units of a vendor's GPUs, and the kernel of convolutions on them.

    Attributes:
        feature: Of devices that have such units.
        units: The device has the first whose feature it has.
        tiles: Returns the tiles of the kernel for a unit.
        entry: The kernel, in a file of that name.
        blocks_weights: Whether weights lie in blocks of outputs of a sub-group, terms in pairs.
    """

    feature: str
    units: tuple[Unit, ...]
    tiles: Callable[[Unit], tuple[UnitTile, ...]]
    entry: str
    blocks_weights: bool

    def unit_of(self, device: DeviceInfo) -> Unit:
        """Return the unit of a device that has the vendor's feature."""
        return next(u for u in self.units if not u.feature or u.feature in device.features)

    def weights_format(self, device: DeviceInfo, output: int, term: int, between: tuple[int, ...] = ()) -> Format:
        """Return the format of weights, terms innermost.

        Args:
            output, term: The axes of outputs and channels; *between* those of taps.
        """
        blocks = ((output, self.unit_of(device).lanes), (term, 2)) if self.blocks_weights else ()
        return Format((output, *between, term), blocks)

    def tile_refusal(self, device: DeviceInfo) -> str | None:
        """Say why *device* cannot run any tile."""
        found = self.tiles(self.unit_of(device))
        if any(tile.fits(device) for tile in found):
            return None
        items, local = min(t.group[0] * t.group[1] for t in found), min(t.local_bytes for t in found)
        return f"requires groups of {items} work-items and {local} bytes of local memory"

    def best_tile(self, device: DeviceInfo, sizes: ProductSizes) -> tuple[UnitTile, float]:
        """Return the tile that makes products of *sizes* soonest; seconds.

        Whole tiles are computed, as many at once as the device has compute units.
        """
        unit, units = self.unit_of(device), max(device.compute_units, 1)

        def seconds(tile: UnitTile) -> float:
            groups = -(-sizes.rows // tile.rows) * -(-sizes.columns // tile.columns) * sizes.count
            work = 2.0 * tile.rows * tile.columns * sizes.terms
            return -(-groups // units) * units * work / (device.flops * unit.speed * tile.share)

        found = min((t for t in self.tiles(unit) if t.fits(device)), key=seconds)
        return found, seconds(found)

    def launch(self, tile: UnitTile, sizes: ProductSizes, args: tuple[Argument, ...]) -> Launch:
        """Return the launch that makes products of *sizes* by *tile*."""
        across, down = -(-sizes.columns // tile.columns), -(-sizes.rows // tile.rows)
        items, sub_groups = tile.group
        jit = float_jit(DType.F16, WIDE_RANK).define(**dict(tile.defines))
        grid = (across * items, down * sub_groups, sizes.count)
        return Launch(f"convolution/{self.entry}.cl", self.entry, jit, grid, (items, sub_groups, 1), args)
