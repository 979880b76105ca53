"""Blocks of tiles of a convolution by Winograd's algorithm: which of them, and whether in one step or in two."""

from __future__ import annotations

from functools import lru_cache
from math import inf

from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.blocks import BLOCKED, row_costs, widths
from clgraph.implementations.cpu.cost import (
    OWN_CACHE,
    again_seconds,
    operand_loads,
    spread_seconds,
    traffic_seconds,
    worker_flops,
)
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.winograd_weights import POSITIONS
from clgraph.selector.query import DeviceInfo

SCRATCH_BYTES = 3 << 17
"""Scratch of a ticket that transforms its own tiles: more would drive the weights out of the second-level cache."""

SHARED_WEIGHTS = 1 << 22
"""Bytes of weights that stay in the cache of all cores between tickets."""

STRIDED_SHARE = 0.25
"""What the transforms of a tile for stride 2 take of those of a 6x6 one (Zen 4: 0.15 to 0.35)."""


@frozen
class Blocking:
    """One way to compute a problem: the blocks, and whether tickets transform their own tiles.

    Attributes:
        nb: Blocks of 16 output channels at a time, ``groups`` times.
        size: Tiles of a block, ``blocks`` of them in all; ``each`` of them in a ticket.
        seconds: Estimated time.
        positions: Of a transformed tile.
    """

    fused: bool
    nb: int
    groups: int
    size: int
    blocks: int
    each: int
    seconds: float
    positions: int = POSITIONS

    @property
    def spans(self) -> int:
        """Runs of tile blocks."""
        return -(-self.blocks // self.each)

    def v_position(self, planes_in: int) -> int:
        """Floats from one position of a transformed block of tiles to the next; no multiple of a cache's pages."""
        return (planes_in * self.size + 1) * LANES

    @property
    def m_position(self) -> int:
        """Floats from one position of the products to the next."""
        return (self.each * self.nb * self.size + 1) * LANES

    def scratch_bytes(self, planes_in: int) -> int:
        """Bytes of scratch of a ticket."""
        own = self.each * self.v_position(planes_in) if self.fused else 0
        return 4 * self.positions * (self.m_position + own)


@lru_cache(maxsize=1024)
def best_blocking(
    device: DeviceInfo,
    channels: int,
    outputs: int,
    tiles: int,
    moved: int,
    positions: int = POSITIONS,
    vectors: int | None = None,
) -> Blocking:
    """Return the blocking that should take least time, of those in two steps, and in one where it has room.

    A ticket of one step reads all weights, which its core waits for where it does not keep them beside the scratch, and
    has room for its scratch. One of two steps takes several blocks of tiles
    at a time where that leaves tickets for everybody, because each position's weights are read once for all of them.
    Weights are four times those of a direct convolution, nearly three for stride 2; they come from memory while
    products are computed.

    Args:
        tiles: Of all images.
        moved: Bytes of activations.
        positions: Of a transformed tile.
        vectors: Blocks of output channels that the weights were transformed for; ``None``: they will be as it says.
    """
    simd, workers, flops, begin = device.simd, device.workers, worker_flops(device), device.costs.step_seconds
    planes_in, planes_out = -(-channels // LANES), -(-outputs // LANES)
    weights = 4 * positions * planes_in * planes_out * LANES * LANES
    fetched = weights if weights > OWN_CACHE else 0.0
    share = transform_share(device, positions)
    into = tiles * planes_in * device.costs.unit("winograd.input") * share
    out_of = tiles * planes_out * device.costs.unit("winograd.output") * share
    v = 4 * positions * planes_in * LANES * tiles
    transforming, multiplying = traffic_seconds(device, moved + v), traffic_seconds(device, moved + v, fetched)
    joint, crowding = traffic_seconds(device, moved, fetched), device.crowding
    best: tuple[float, bool, int, int, int, int, int] = (inf, False, 0, 0, 0, 0, 0)
    for nb in _families(simd) if vectors is None else (vectors,):
        if planes_out % nb:
            continue
        groups, wide = planes_out // nb, widths(simd, BLOCKED, 1, nb)
        # One block at a time reads tiles twice as often, which come from beyond the first-level cache.
        costs = row_costs(nb, wide, channels, loads=nb > 1 and operand_loads(device))
        for size in wide:
            if size > tiles and size != 1:
                continue
            blocks = -(-tiles // size)
            rows = tiles // size * costs[size] + costs[tiles % size]
            work = positions * channels * groups * rows * 2 * LANES / flops
            each = next((n for n in (4, 2) if groups * -(-blocks // n) >= 4 * workers), 1)
            each = min(blocks, each)
            seconds = begin + max(spread_seconds(into, blocks * planes_in, workers, crowding), transforming)
            seconds += begin + max(
                spread_seconds(work + out_of, groups * -(-blocks // each), workers, crowding), multiplying
            )
            best = min(best, (seconds, False, nb, size, groups, blocks, each))
            if blocks == 1 or weights <= SHARED_WEIGHTS:
                seconds = begin + max(spread_seconds(into + work + out_of, blocks, workers, crowding), joint)
                one = (seconds, True, nb, size, groups, blocks, 1)
                scratch = _blocking(one, positions).scratch_bytes(planes_in)
                if scratch <= SCRATCH_BYTES:
                    best = min(best, (seconds + again_seconds(device, weights + scratch, blocks), *one[1:]))
    return _blocking(best, positions)


def transform_share(device: DeviceInfo, positions: int) -> float:
    """Return what the transforms of a tile of so many *positions* take of those of a 6x6 one, which are measured.

    Those for stride 2 only add: the 32 registers of AVX-512 hold a tile, and they take a quarter; with fewer registers
    it is what they read and write.
    """
    if positions == POSITIONS:
        return 1.0
    return STRIDED_SHARE if device.simd >= LANES else positions / POSITIONS


def _families(simd: int) -> tuple[int, ...]:
    return (1, 2, 4) if simd >= 16 else (1, 2)


def _blocking(found: tuple[float, bool, int, int, int, int, int], positions: int) -> Blocking:
    seconds, fused, nb, size, groups, blocks, each = found
    return Blocking(fused, nb, groups, size, blocks, each, seconds, positions)
