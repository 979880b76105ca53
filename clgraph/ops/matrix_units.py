"""The matrix units of Intel's and AMD's GPUs: which a device has, the tiles of their kernel, and how long it takes."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.ops.gpu_vectors import WIDE_RANK
from clgraph.selector.general import float_jit
from clgraph.selector.plan import Argument, Launch
from clgraph.selector.query import DeviceInfo

INTEL, AMD = "intel_dpas", "amd_matrix"
"""Features of devices that have such units; of the units of each, the device has the first whose feature it has."""
MULTIPLE = 8
"""Halves of 16 bytes: rows start at multiples of them."""


@frozen
class Unit:
    """What multiplies, in a sub-group or wave of *lanes*.

    Attributes:
        feature: Of a device that has it, beside ``INTEL`` or ``AMD``; none: all others have it.
        words: Words of two halves that a lane has of a row, where that differs.
        terms: The multiple of terms that it wants.
        speed: Of its products, in peaks of float32. An estimate.
    """

    feature: str
    lanes: int
    words: int
    terms: int
    speed: float


UNITS = {
    INTEL: (Unit("intel_dpas16", 16, 0, 16, 6.0), Unit("", 8, 0, 16, 6.0)),
    AMD: (Unit("amd_mfma", 64, 2, 8, 6.0), Unit("amd_wmma12", 32, 4, 8, 4.0), Unit("", 32, 8, 8, 2.0)),
}
"""DPAS of Xe HPC and Xe2, of Xe HPG; MFMA of CDNA, WMMA of RDNA 4 and of RDNA 3."""


@frozen
class Tile:
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

    def launch(self, rows: int, columns: int, groups: int, vendor: str, args: tuple[Argument, ...]) -> Launch:
        """Return the launch that makes *groups* products of *rows* x *columns* results."""
        across, down = -(-columns // self.columns), -(-rows // self.rows)
        items, sub_groups = self.group
        entry = {INTEL: "convolution_intel", AMD: "convolution_amd"}[vendor]
        jit = float_jit(DType.F16, WIDE_RANK).define(**dict(self.defines))
        grid = (across * items, down * sub_groups, groups)
        return Launch(f"convolution/{entry}.cl", entry, jit, grid, (items, sub_groups, 1), args)


def unit_of(device: DeviceInfo, vendor: str) -> Unit:
    """Return the unit of a device that has the feature *vendor*."""
    return next(u for u in UNITS[vendor] if not u.feature or u.feature in device.features)


def tiles(unit: Unit, vendor: str) -> tuple[Tile, ...]:
    """Return the tiles of the kernel for *unit*."""
    lanes = unit.lanes
    if vendor == INTEL:
        return tuple(
            Tile(
                32 * rows,
                lanes * columns,
                (lanes, 4),
                0,
                (("LANES", lanes), ("ROWS", rows), ("COLUMNS", columns), ("SUB_GROUP_COUNT", 4)),
                share,
            )
            for rows, columns, share in ((2, 4, 0.3), (1, 4, 0.2), (1, 2, 0.12))
        )
    return tuple(
        Tile(
            32 * each,
            32 * each,
            (4 * lanes, 1),
            2 * 32 * each * 80,
            (("LANES", lanes), ("WORDS", unit.words), ("WAVES", 2), ("EACH", each)),
            share,
        )
        for each, share in ((4, 0.4), (2, 0.25))
    )


def tile_refusal(device: DeviceInfo, vendor: str) -> str | None:
    """Say why *device* cannot run any tile."""
    found = tiles(unit_of(device, vendor), vendor)
    if any(tile.fits(device) for tile in found):
        return None
    items, local = min(t.group[0] * t.group[1] for t in found), min(t.local_bytes for t in found)
    return f"wants groups of {items} work-items and {local} bytes of local memory"


def best_tile(device: DeviceInfo, vendor: str, rows: int, columns: int, k: int, count: int) -> tuple[Tile, float]:
    """Return the tile that makes *count* products of *rows* x *columns* results from *k* terms soonest, and seconds.

    Whole tiles are computed, as many at once as the device has compute units.
    """
    unit, units = unit_of(device, vendor), max(device.compute_units, 1)

    def seconds(tile: Tile) -> float:
        groups = -(-rows // tile.rows) * -(-columns // tile.columns) * count
        work = 2.0 * tile.rows * tile.columns * k
        return -(-groups // units) * units * work / (device.flops * unit.speed * tile.share)

    found = min((t for t in tiles(unit, vendor) if t.fits(device)), key=seconds)
    return found, seconds(found)
