"""Register blocks of products of bfloat16 on CPU devices: by vectors of pairs, or by tile registers of Intel AMX."""

from __future__ import annotations

from clgraph.core.frozen import frozen
from clgraph.selector.micro_kernels import Micro, micro_family
from clgraph.selector.query import DeviceInfo

_FILE = "matmul/micro_pairs.cl"
_ROWS = 6
"""Most rows of an instance of vectors."""
_TILES = Micro.of("matmul/micro_pair_tiles.cl")
_TILE_ROWS, _TILE_PAIRS = 16, 16
"""Rows of a tile register, and pairs that it adds at once."""
_TILE_ENTRY = 2000.0
"""Multiply-adds of floats in whose time a block of tile registers begins, and its result is written."""

MICROS = micro_family(
    "micro_pairs",
    {16: [*(Micro.of(_FILE, UR=rows, NB=4) for rows in range(1, _ROWS + 1)), _TILES], 8: [Micro.of(_FILE, UR=1, NB=4)]},
)


@frozen
class PairBlock:
    """Blocks of at most so many rows by 64 columns; the id of the instance of tile registers, or -1."""

    rows: int
    tiles_id: int


def pair_block(device: DeviceInfo, pairs: int) -> PairBlock:
    """Return the blocks of sums of runs of *pairs*: tile registers add sixteen at once."""
    if "amx_bf16" in device.features and pairs % _TILE_PAIRS == 0:
        return PairBlock(2 * _TILE_ROWS, MICROS.id(device.simd, _TILES))
    return PairBlock(_ROWS, -1)


def tile_seconds(device: DeviceInfo, pairs: int, rows: float) -> float:
    """Return one worker's time for a block of tile registers of so many rows, of sums of *pairs* in all."""
    products = -(-rows // _TILE_ROWS) * _TILE_ROWS * 64 * 2 * pairs / device.costs.amx_products
    return 2.0 * (products + _TILE_ENTRY) / device.costs.worker_flops
