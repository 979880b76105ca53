"""Register blocks of convolutions: the instances of the micro-kernel, and which of them suit a row of pixels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.geometry import LANES
from clgraph.selector.descriptor import Long, fields
from clgraph.selector.micro_kernels import Micro, micro_family

FILE, BYTES_FILE = "convolution/micro_conv.cl", "quantized_convolution/micro_bytes.cl"
BLOCKED, PLANAR, BYTES = 16, 1, 4
"""What an input pixel is: 16 floats of a block of channels, one of a plane, or 16 bytes, which are 4 floats long."""


def _micro(pixel: int, stride: int, nb: int, ur: int, halves: int = 0) -> Micro:
    if pixel == BYTES:
        return Micro.of(BYTES_FILE, S=stride, NB=nb, UR=ur)
    if halves:
        return Micro.of(FILE, PX=pixel, S=stride, NB=nb, UR=ur, HALVES=halves)
    return Micro.of(FILE, PX=pixel, S=stride, NB=nb, UR=ur)


Widths = dict[tuple[int, int], dict[int, tuple[int, ...]]]

_WIDE: Widths = {
    (BLOCKED, 1): {1: (1, 2, 4, 7, 8, 14), 2: (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14), 4: (1, 2, 4, 6)},
    (BLOCKED, 2): {1: (1, 4, 8, 14), 2: (1, 2, 4, 7, 8, 10, 12, 14)},
    (BLOCKED, 0): {1: (1, 7), 2: (1, 4, 7, 8)},
    (PLANAR, 1): {2: (1, 14), 1: (1, 14)},
    (PLANAR, 2): {2: (1, 8, 14), 1: (1, 14)},
    (PLANAR, 0): {2: (1, 4, 6, 7, 8), 1: (1, 7)},
    (BYTES, 1): {1: (1, 4, 14), 2: (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14), 4: (1, 2, 4, 6)},
    (BYTES, 2): {1: (1, 4, 14), 2: (1, 2, 4, 7, 8, 10, 14)},
    (BYTES, 0): {1: (1, 7), 2: (1, 4, 8), 4: (1, 2, 3, 4, 5, 6)},
}
_NARROW: Widths = {
    (BLOCKED, 1): {1: (1, 2, 3, 4, 5, 6), 2: (1, 2)},
    (BLOCKED, 2): {1: (1, 2, 3, 4, 5, 6)},
    (BLOCKED, 0): {1: (1, 4)},
    (PLANAR, 1): {1: (1, 2, 4, 6)},
    (PLANAR, 2): {1: (1, 2, 4, 6)},
    (PLANAR, 0): {1: (1, 3, 4, 5, 6)},
    (BYTES, 1): {1: (1, 2, 3, 4, 5, 6)},
    (BYTES, 2): {1: (1, 2, 4, 6)},
    (BYTES, 0): {1: (1, 4)},
}
_LAST: dict[int, dict[tuple[int, int, int], dict[int, tuple[int, ...]]]] = {
    16: {(BLOCKED, 1, 1): {1: (1, 4, 7, 14)}, (BLOCKED, 1, 2): dict.fromkeys((1, 2, 3), (1, 4, 7, 14))},
    8: {(BLOCKED, 1, 1): {1: (1, 2, 4, 6)}},
}
"""Widths for the last group of output channels, by input pixel, stride and blocks, then by the halves of blocks that it
computes. Units of 512 bits take as long for half a block as for a whole one, those of 256 bits half as long."""

_TABLES = {16: _WIDE, 8: _NARROW}
"""Widths by (input pixel, stride, 0 for a run-time one) and blocks of output channels, by SIMD width.

AVX-512 has registers for 28 accumulators of 16 floats, AVX2 for 6. Widths that are missing are put together.
"""


def _instances(simd: int, *, bytes_: bool = False) -> Iterator[Micro]:
    for (pixel, stride), widths in _TABLES[simd].items():
        for nb, wide in widths.items():
            yield from (_micro(pixel, stride, nb, ur) for ur in wide if (pixel == BYTES) == bytes_)
    for (pixel, stride, nb), parts in ({} if bytes_ else _LAST[simd]).items():
        yield from (_micro(pixel, stride, nb, ur, halves) for halves, wide in parts.items() for ur in wide)


MICROS = micro_family("micro_conv", {simd: list(_instances(simd)) for simd in _TABLES})
BYTE_MICROS = micro_family("micro_bytes", {simd: list(_instances(simd, bytes_=True)) for simd in _TABLES})


@frozen
class Block:
    """How a row is computed: ``nb`` blocks of output channels at a time, in ``chunks`` parts.

    Attributes:
        chunk_width: Pixels of every part but the last; 0 for about equal parts.
        stride: Of the instances; 0 when they read it at run time.
        cost: Half-cycles an input channel and window element, for one row and all output blocks.
        last: Halves of blocks that the last group computes; 0 where it computes ``nb`` blocks as the others do.
    """

    pixel: int
    stride: int
    nb: int
    chunks: int
    chunk_width: int
    cost: float
    last: int = 0


@lru_cache(maxsize=128)
def half_cycles(nb: float, ur: int) -> float:
    """Return the time of one input channel: FMAs at two a cycle, loads at two, their latency; and weights to fetch.

    Measured on a core with 512-bit units; the form holds for 256 bits, where each term counts twice. One block alone
    loads a value for each product.
    """
    return max(nb * ur, 1.02 * (nb + ur), 9.0) + 0.8 * nb + (0.15 * ur if nb == 1 else 0.0)


def tap_half_cycles(nb: float, ur: int, *, loads: bool) -> float:
    """Return :func:`half_cycles`; where *loads*, of products one after the other, four of which are their latency.

    Args:
        loads: Products take no longer where each loads an operand (feature ``operand_loads``): one block at a time
            takes no longer than several.
    """
    if not loads:
        return half_cycles(nb, ur)
    return 1.06 * max(nb * ur, 4.0) if nb <= 1 else max(nb * ur, 4.0) + 0.8 * nb


def entry_half_cycles(nb: float, ur: int, *, loads: bool) -> float:
    """Return what it takes to enter an instance, and to store what it makes.

    Zen 4 stores nothing beside products of registers alone, each vector for two of these: there the sums of one block,
    whose products load an operand, take 16.0 cycles a vector and 16 channels, those of two blocks 18.
    """
    return 20.0 if loads and nb <= 1 else 40 + 2 * nb * ur


def instance_stride(stride: int, simd: int, pixel: int) -> int:
    """Return the stride class that serves *stride*."""
    return stride if (pixel, stride) in _table(simd) else 0


def widths(simd: int, pixel: int, stride: int, nb: int) -> tuple[int, ...]:
    """Return the instances' widths, ascending."""
    return _table(simd)[pixel, stride][nb]


def best_block(simd: int, pixel: int, stride: int, width: int, blocks: int, taps: int, *, loads: bool = False) -> Block:
    """Return the cheapest way to compute rows of *width* pixels for *blocks* output blocks from *taps* inputs each."""
    return min(blocks_of(simd, pixel, stride, width, blocks, taps, whole=True, loads=loads), key=lambda b: b.cost)


@lru_cache(maxsize=1024)
def blocks_of(
    simd: int,
    pixel: int,
    stride: int,
    width: int,
    blocks: int,
    taps: int,
    *,
    whole: bool = False,
    packed: int = 0,
    lanes: int = 0,
    loads: bool = False,
) -> tuple[Block, ...]:
    """Return the cheapest way to do that for each number of blocks at a time, which need not divide *blocks*.

    Args:
        whole: They must.
        packed: For this number alone, which weights are packed for; 0 for each.
        lanes: Channels of the last output block; 0 where the last group is to be computed as the others are.
        loads: As in :func:`tap_half_cycles`.
    """
    best: list[Block] = []
    kind, loads = instance_stride(stride, simd, pixel), loads and _width(simd) == 16
    for nb, wide in _table(simd)[pixel, kind].items():
        if (packed and nb != packed) or (blocks % nb and (whole or blocks < nb)):
            continue
        cost, chunks, chunk_width = float("inf"), 0, 0
        each, last = _group_costs(simd, pixel, kind, nb, blocks, taps, lanes, loads=loads)
        for ur in wide:
            full, rest = divmod(width, ur)
            parts = full + (rest > 0)
            narrow, wider = divmod(width, parts)
            even = (parts - wider) * each[narrow] + wider * each[narrow + 1]
            fixed = full * each[ur] + each[rest]
            if even <= cost and (even, parts, 0) < (cost, chunks, chunk_width):
                cost, chunks, chunk_width = even, parts, 0
            if fixed <= cost and (fixed, parts, ur) < (cost, chunks, chunk_width):
                cost, chunks, chunk_width = fixed, parts, ur
        best.append(Block(pixel, kind, nb, chunks, chunk_width, cost, last))
    return tuple(best)


@lru_cache(maxsize=1024)
def _group_costs(
    simd: int, pixel: int, kind: int, nb: int, blocks: int, taps: int, lanes: int, *, loads: bool
) -> tuple[tuple[float, ...], int]:
    """Return what :func:`row_costs` does, of all groups together, and the halves that the last one computes."""
    costs, others = row_costs(nb, _table(simd)[pixel, kind][nb], taps, loads=loads), -(-blocks // nb) - 1
    halves = 2 * (blocks - others * nb) - (lanes <= LANES // 2)
    last = _last(simd, pixel, kind, nb, halves) if lanes else 0
    ends = _last_costs(simd, pixel, kind, nb, last, taps, loads=loads) if last else costs
    return tuple(others * cost + end for cost, end in zip(costs, ends, strict=True)), last


def _last(simd: int, pixel: int, stride: int, nb: int, halves: int) -> int:
    """Return the fewest halves not below *halves* that instances compute of *nb* blocks; 0 where they compute all."""
    parts = _LAST[_width(simd)].get((pixel, stride, nb), {})
    return min((found for found in parts if found >= halves), default=0)


def _last_costs(
    simd: int, pixel: int, stride: int, nb: int, halves: int, taps: int, *, loads: bool
) -> tuple[float, ...]:
    """Return what :func:`row_costs` does, of the group that computes so many *halves*."""
    # Two halves in one unit of two of 256 bits, with as many loads as a whole block (Zen 4: 0.6).
    half = 0.75 if loads and halves == 1 else -(-halves // 2)
    computed = halves / 2 if _width(simd) == 8 else half
    return row_costs(computed, _LAST[_width(simd)][pixel, stride, nb][halves], taps, loads=loads)


@lru_cache(maxsize=1024)
def row_costs(nb: float, wide: tuple[int, ...], taps: int, *, loads: bool = False) -> tuple[float, ...]:
    """Return the time a tap of 0, 1, ... pixels put together from instances, to one more than the widest has."""
    costs = []
    for size in range(wide[-1] + 2):
        cost = 0.0
        for ur in _pieces(size, wide):
            cost += tap_half_cycles(nb, ur, loads=loads) + entry_half_cycles(nb, ur, loads=loads) / taps
        costs.append(cost)
    return tuple(costs)


@lru_cache(maxsize=1024)
def _pieces(size: int, wide: tuple[int, ...]) -> tuple[int, ...]:
    """Return the widths that *size* pixels are put together from, the widest first."""
    if not size:
        return ()
    ur = max(u for u in wide if u <= size)
    return (ur, *_pieces(size - ur, wide))


@fields
class IdsFields:
    """The look-up table of instances, :class:`Ids`."""

    widths: Long
    ids_0: Long
    ids_1: Long


@frozen
class Ids:
    """The table a driver looks instances up in: nibble n of ``widths`` the widest not above n, byte n its id."""

    widths: int
    low: int
    high: int

    def fields(self, prefix: str = "") -> dict[str, Any]:
        """Return the fields of :class:`IdsFields`, with *prefix* in front of their names."""
        return {f"{prefix}widths": self.widths, f"{prefix}ids_0": self.low, f"{prefix}ids_1": self.high}


@lru_cache(maxsize=64)
def ids(simd: int, pixel: int, stride: int, nb: int, halves: int = 0) -> Ids:
    """Return the look-up table of a stride class and number of blocks, of the group that computes *halves* of them."""
    wide = _LAST[_width(simd)][pixel, stride, nb][halves] if halves else widths(simd, pixel, stride, nb)
    nibbles = sum(max((u for u in wide if u <= n), default=0) << 4 * n for n in range(16))
    family = BYTE_MICROS if pixel == BYTES else MICROS
    numbers = {u: family.id(simd, _micro(pixel, stride, nb, u, halves)) for u in wide}
    table = [sum(number << 8 * (u - base) for u, number in numbers.items() if base <= u < base + 8) for base in (0, 8)]
    return Ids(_signed(nibbles), _signed(table[0]), _signed(table[1]))


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _table(simd: int) -> Widths:
    return _TABLES[_width(simd)]


def _width(simd: int) -> int:
    return 16 if simd >= 16 else 8
