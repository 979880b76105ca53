"""Tiles of matrix products on NVIDIA GPUs: which one, and how many parts of k, suit a problem; how long it takes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.implementations.gpu.products import ProductSizes
from clgraph.implementations.gpu.vectors import vector_jit
from clgraph.selector.costs import shipped
from clgraph.selector.jit import Jit
from clgraph.selector.query import SM80, DeviceInfo
from clgraph.selector.views import View

F16, TF32X3, F32, F16X3, S8 = "PRODUCT_F16", "PRODUCT_TF32X3", "PRODUCT_F32", "PRODUCT_F16X3", "PRODUCT_S8"
"""How products are made; ``nvidia_tile.clh`` says more."""
_SUM_BANDWIDTH = 0.7
_LEAST_STEPS = 4
"""Steps of a part of k: fewer are mostly filling of the pipeline."""
_SLOWER, _SLOWER_F32 = 3.0, 2.0
"""By how much longer than in the cost model a step takes on compute capability 7.5. Its matrix units make 512 products
of halves a cycle, an H200's about 1390, and copies are waited for; of floats it makes 64, an H200 128. Estimates."""
_ALONE = 1.5
"""A single group on a compute unit waits for memory where two would not. An estimate."""


@frozen
class PtxTile:
    """What a group of work-items makes; the parameters of ``nvidia_tile.clh``.

    Attributes:
        sm80: Whether copies run beside the products, and products are those of compute capability 8.0.
    """

    product: str
    warps: tuple[int, int]
    warp_sizes: tuple[int, int]
    chunks: int
    stages: int
    sm80: bool = True

    @property
    def rows(self) -> int:
        """Rows of the result."""
        return self.warps[0] * self.warp_sizes[0]

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return self.warps[1] * self.warp_sizes[1]

    @property
    def items(self) -> int:
        """Work-items of the group."""
        return 32 * self.warps[0] * self.warps[1]

    @property
    def step(self) -> int:
        """Elements of k of a stage."""
        return self.chunks * chunk(self.product)

    @property
    def local_bytes(self) -> int:
        """Local memory: the stages, and later in their place the rows of a slab as float."""
        slab = 16 if self.product == F32 else 16 * self.warps[0]
        return max(self.stages * (self.rows + self.columns) * self.chunks * 16, slab * (self.columns + 8) * 4)

    @property
    def unit(self) -> str:
        """What the cost model calls a step."""
        return f"nvidia.{self.product.removeprefix('PRODUCT_').lower()}.{self.rows}x{self.columns}"

    def jit(self, dtype: DType, rank: int) -> Jit:
        """Return the preamble of a kernel on tensors of *dtype* that counts *rank* axes."""
        jit = vector_jit(dtype, rank) if dtype == DType.F16 else vector_jit(dtype, rank).define(T="float")
        return jit.define(**self.macros)

    @property
    def macros(self) -> dict[str, str | int]:
        """The parameters as a kernel takes them."""
        return {
            "PRODUCT": self.product,
            "WARPS_M": self.warps[0],
            "WARPS_N": self.warps[1],
            "WARP_ROWS": self.warp_sizes[0],
            "WARP_COLUMNS": self.warp_sizes[1],
            "CHUNKS": self.chunks,
            "STAGES": self.stages,
            "WAITING": self.stages - 2,
            **ptx_macros(self.sm80),
        }


TILES = (
    PtxTile(F16, (2, 2), (64, 64), 4, 3),
    PtxTile(F16, (4, 1), (64, 64), 4, 2),
    PtxTile(F16, (2, 2), (64, 32), 4, 4),
    PtxTile(F16, (2, 2), (32, 32), 8, 3),
    PtxTile(F16, (2, 2), (16, 32), 8, 3),
    PtxTile(TF32X3, (2, 2), (64, 32), 4, 3),
    PtxTile(TF32X3, (2, 2), (32, 32), 4, 3),
    PtxTile(F16X3, (2, 2), (64, 32), 4, 3),
    PtxTile(F16X3, (2, 2), (32, 32), 8, 3),
    PtxTile(F32, (4, 2), (32, 64), 4, 2),
    PtxTile(F32, (4, 2), (32, 32), 4, 3),
    PtxTile(F32, (4, 2), (16, 32), 4, 3),
)
"""All of floats; each needs at most the 48 KiB of local memory that every NVIDIA GPU gives a group."""
BYTE_TILES = (
    PtxTile(S8, (2, 2), (64, 64), 4, 3),
    PtxTile(S8, (4, 1), (64, 64), 4, 2),
    PtxTile(S8, (2, 2), (64, 32), 4, 4),
    PtxTile(S8, (2, 2), (32, 32), 8, 3),
    PtxTile(S8, (2, 2), (16, 32), 8, 3),
)
"""The same of 8-bit integers."""


@frozen
class Tiling:
    """A tile, the number of parts that k is computed in, and the estimate without the first launch."""

    tile: PtxTile
    split_k: int
    seconds: float


def chunk(product: str) -> int:
    """Return the elements of 16 bytes."""
    return {F16: 8, S8: 16}.get(product, 4)


def tiles_for(device: DeviceInfo, product: str) -> tuple[PtxTile, ...]:
    """Return the tiles of *product* that *device* has room for.

    Where copies do not run beside the products, two stages do: a second group on the compute unit is worth more.
    """
    sm80, found = device.features >= SM80, (t for t in TILES + BYTE_TILES if t.product == product)
    made = found if sm80 else (replace(t, stages=2, sm80=False) for t in found)
    return tuple(t for t in made if t.local_bytes <= device.local_bytes and t.items <= device.max_work_group)


def ptx_macros(sm80: bool) -> dict[str, int]:
    """Return what ``ptx.clh`` is told of the device, beside its defaults."""
    return {} if sm80 else {"PTX_75": 1}


def tile_refusal(device: DeviceInfo, product: str) -> str | None:
    """Say why *device* cannot run any tile of *product*."""
    if tiles_for(device, product):
        return None
    least = min(t.local_bytes for t in TILES + BYTE_TILES if t.product == product)
    return f"requires {least} bytes of local memory, the device has {device.local_bytes}"


def best_tiling(device: DeviceInfo, product: str, sizes: ProductSizes) -> Tiling:
    """Return the tile and the number of parts that make products of *sizes* soonest.

    The times of steps are those of the cost model; groups are spread evenly over the compute units. Parts are summed by
    a second launch, which reads and writes them once.
    """
    # What was tuned decides nothing here, and is not a part of what answers are kept by.
    plain = device if device.tuning is None else replace(device, tuning=None)
    return _best_tiling(plain, product, sizes)


@lru_cache(maxsize=512)
def _best_tiling(device: DeviceInfo, product: str, sizes: ProductSizes) -> Tiling:
    units, tilings, results = max(device.compute_units, 1), [], sizes.results
    for tile in tiles_for(device, product):
        steps = -(-sizes.terms // tile.step)
        groups = -(-sizes.rows // tile.rows) * -(-sizes.columns // tile.columns) * sizes.count
        for parts in (1, 2, 4, 8, 16):
            if parts > 1 and (steps < parts * _LEAST_STEPS or 4 * parts * results > device.max_alloc):
                break
            rounds = max(-(-groups * parts // units), _ALONE)
            seconds = rounds * -(-steps // parts) * _step_seconds(device, tile)
            if parts > 1:
                traffic = 2.0 * parts * results * 4
                seconds += device.launch_seconds + traffic / (device.bytes_per_second * _SUM_BANDWIDTH)
            tilings.append(Tiling(tile, parts, seconds))
    return min(tilings, key=lambda t: t.seconds)


def _step_seconds(device: DeviceInfo, tile: PtxTile) -> float:
    found = device.costs.units.get(tile.unit)
    seconds = shipped("nvidia").units[tile.unit] if found is None else found
    return seconds if tile.sm80 else seconds * (_SLOWER_F32 if tile.product == F32 else _SLOWER)


def in_chunks(layout: Layout, view: View, product: str) -> str | None:
    """Say why 16 bytes at a time cannot be copied from *layout*.

    Args:
        view: Of the tensor, as the kernel counts; copies run along its second axis, whose pitch is 1.
    """
    size = chunk(product)
    others = [p for axis, p in enumerate(view.pitches) if axis != 1]
    if view.pitches[1] != 1 or view.origin % size or any(p % size for p in others):
        return f"copies {size} neighbouring elements at a time, which {layout} does not have at multiples of them"
    return None
