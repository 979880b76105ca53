"""Pack the buffers into one arena a placement. Answers clDNN's memory pool, which reuses whole buffers only."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import DeviceMemoryError
from clgraph.graph.buffer import Arena, Buffer
from clgraph.graph.primitive import Array
from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.memory.sharing import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Conflicts = dict[Buffer, tuple[int, NDArray[np.bool_] | None]]
    """The number of each buffer and, where it has conflicts, a flag by number."""

_ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.nbytes, b.first),
    lambda b: (-b.nbytes * (b.last - b.first + 1), b.first),
    lambda b: (b.first - b.last, -b.nbytes),
    lambda b: (b.first, -b.nbytes),
)

_PLACED = 1 << 14
"""How many buffers the changes of the order may place in all."""

FEW = 200
"""Up to this many buffers are placed one against the other, without arrays."""


@frozen
class PlanMemory(Pass):
    """Give every buffer an offset such that no two that are in conflict overlap.

    Buffers are placed largest first at the lowest free offset (greedy by size, as in Pisarchyk and Lee, "Efficient
    Memory Management for Deep Neural Net Inference", 2020). When that misses the lower bound, three other orders are
    tried, then earlier turns for buffers that end last; the smallest arena is kept. No buffer crosses a multiple of the
    largest allocation of the device, so that an arena larger than that can be cut into banks. Counts the bytes saved
    by sharing.

    Attributes:
        orders: The numbers of the orders that are tried; ``moves``: how many changes of the best one are, when none
            reaches the lower bound.
    """

    orders: tuple[int, ...] = (0, 1, 2, 3)
    moves: int = 24

    name: ClassVar[str] = "plan_memory"
    required: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.SELECTED
    reaches: ClassVar[Milestone | None] = Milestone.PLANNED

    def run(self, program: Program, context: Context) -> int:
        _check_constants(program, context)
        saved = 0
        for placement, buffers in _by_placement(program).items():
            arena = _pack(buffers, _bank(context, placement), self.orders, self.moves)
            program.arenas[placement] = arena
            saved += arena.unshared - arena.nbytes
        return saved


def _check_constants(program: Program, context: Context) -> None:
    """Raise ``DeviceMemoryError`` for a constant that a device copies, and cannot in one piece."""
    if all(device.kind != "gpu" for device in context.devices.values()):
        return
    for node in program:
        device = context.device(node)
        for value in node.inputs if device.kind == "gpu" else ():
            if value.constant is not None and value.layout.nbytes > device.max_alloc:
                raise DeviceMemoryError(
                    f"constant {value.name!r} of node {node.name!r} takes {value.layout.nbytes} bytes; {device.name} "
                    f"allocates at most {device.max_alloc} at once: place the node elsewhere, or use precision=f16"
                )


def best_order(program: Program, context: Context) -> int:
    """Return the number of the order that packs the buffers of a planned *program* into the fewest bytes."""
    arenas, ends = _by_placement(program), []
    for key in _ORDERS:
        packed = (_placer(buffers)(sorted(buffers, key=key), _bank(context, p), None) for p, buffers in arenas.items())
        ends.append(sum(_end(offsets or {}) for offsets in packed))
    return ends.index(min(ends))


def _by_placement(program: Program) -> dict[str, list[Buffer]]:
    found: dict[str, list[Buffer]] = {}
    for buffer in program.buffers:
        found.setdefault(buffer.placement, []).append(buffer)
    return found


def _bank(context: Context, placement: str) -> int:
    """Return the bytes of the largest allocation of a device, in whole units."""
    return context.devices[placement].max_alloc // UNIT * UNIT


def lower_bound(buffers: Iterable[Buffer]) -> int:
    """Return the most bytes alive at one position of the execution order."""
    steps: dict[int, int] = {}
    for b in buffers:
        size = _units(b.nbytes)
        steps[b.first] = steps.get(b.first, 0) + size
        steps[b.last + 1] = steps.get(b.last + 1, 0) - size
    alive = most = 0
    for position in sorted(steps):
        alive += steps[position]
        most = max(most, alive)
    return most


def _pack(buffers: list[Buffer], bank: int, orders: Sequence[int], moves: int) -> Arena:
    for b in buffers:
        if b.nbytes > bank:
            raise DeviceMemoryError(f"{b.name} takes {b.nbytes} bytes; the device allocates at most {bank} at once")
    least, best, end = lower_bound(buffers), dict[Buffer, int](), -1
    place, order = _placer(buffers), buffers
    for tried in (sorted(buffers, key=_ORDERS[number]) for number in orders):
        offsets = place(tried, bank, end - 1 if end >= 0 else None)
        if offsets is not None:
            order, best, end = tried, offsets, _end(offsets)
        if end <= least:
            break
    pick = Random(0)
    for _ in range(min(moves, _PLACED // len(buffers)) if end > least else 0):
        # Only what ends last makes the arena as large as it is, and only an earlier turn lets it lie lower.
        last = pick.choice([i for i, b in enumerate(order) if best[b] + _units(b.nbytes) == end])
        tried = list(order)
        tried.insert(pick.randrange(last or 1), tried.pop(last))
        offsets = place(tried, bank, end)
        if offsets is not None:
            order, best, end = tried, offsets, _end(offsets)
        if end <= least:
            break
    for b, offset in best.items():
        b.offset = offset
    return Arena(end, least, sum(_units(b.nbytes) for b in buffers))


def _end(offsets: dict[Buffer, int]) -> int:
    return max([o + -(-b.nbytes // UNIT) * UNIT for b, o in offsets.items()], default=0)


def _placer(buffers: list[Buffer]) -> Callable[[list[Buffer], int, int | None], dict[Buffer, int] | None]:
    """Return what gives each of *buffers*, in a given order and in banks of a size, the lowest free offset.

    Given the most bytes that they may take, it returns ``None`` as soon as they take more.
    """
    if len(buffers) <= FEW and not any(b.has_conflicts for b in buffers):
        return place_few
    return partial(place_many, conflicts=_conflicts(buffers))


def place_few(buffers: list[Buffer], bank: int, most: int | None = None) -> dict[Buffer, int] | None:
    """Return the same as :func:`place_many` for buffers without conflicts; a fifth of its time for 90 of them."""
    offsets: dict[Buffer, int] = {}
    placed: list[tuple[int, int, int, int]] = []
    starts: list[int] = []
    for b in buffers:
        size, first, last, at = -(-b.nbytes // UNIT) * UNIT, b.first, b.last, 0
        for start, stop, begin, end in placed:
            if begin > last or end < first:
                continue
            if (at if at + size <= bank else _in_one_bank(at, size, bank)) + size <= start:
                break
            if stop > at:
                at = stop
        if at + size > bank:
            at = _in_one_bank(at, size, bank)
        if most is not None and at + size > most:
            return None
        offsets[b] = at
        here = bisect_left(starts, at)
        starts.insert(here, at)
        placed.insert(here, (at, at + size, first, last))
    return offsets


def _in_one_bank(at: int, size: int, bank: int) -> int:
    """Return *at*, or the next multiple of *bank* where *size* bytes from there would cross it."""
    return at if at + size <= bank or at // bank == (at + max(size, 1) - 1) // bank else -(-at // bank) * bank


def place_many(
    buffers: list[Buffer], bank: int, most: int | None = None, *, conflicts: Conflicts
) -> dict[Buffer, int] | None:
    """Return the lowest free offset for each buffer, in the given order, by columns of numbers.

    Args:
        most: The bytes that they may take; ``None`` is returned where they take more.
    """
    offsets: dict[Buffer, int] = {}
    # A column for each buffer that has a place, in the order of their starts.
    first, last, start, stop, which = placed = np.empty((5, len(buffers)), np.int64)
    behind = np.zeros(len(buffers) + 1, np.int64)
    for count, b in enumerate(buffers):
        met = (first[:count] <= b.last) & (last[:count] >= b.first)
        number, others = conflicts[b]
        if others is not None:
            met |= others[which[:count]]
        size = _units(b.nbytes)
        ends, starts = stop[:count][met], start[:count][met]
        before = behind[: ends.size + 1]
        np.maximum.accumulate(ends, out=before[1:])
        free = _within_bank(before, size, bank)
        fits = free[:-1] + size <= starts
        at = int(free[fits.argmax() if fits.any() else -1])
        if most is not None and at + size > most:
            return None
        offsets[b] = at
        here = start[:count].searchsorted(at)
        placed[:, here + 1 : count + 1] = placed[:, here:count]
        placed[:, here] = b.first, b.last, at, at + size, number
    return offsets


def _conflicts(buffers: list[Buffer]) -> Conflicts:
    """Return the number of each buffer and, where it has conflicts, which numbers those have."""
    number = {b: i for i, b in enumerate(buffers)}
    found: Conflicts = {}
    for b, i in number.items():
        others = None
        if b.has_conflicts:
            others = np.zeros(len(buffers), np.bool_)
            others[[number[c] for c in b.conflicts if c in number]] = True
        found[b] = i, others
    return found


def _within_bank(at: Array, size: int, bank: int) -> Array:
    """Return *at*, ascending, or the next multiple of *bank* where *size* bytes from there would cross it."""
    if at[-1] + size <= bank:
        return at
    return np.where(at // bank == (at + max(size, 1) - 1) // bank, at, -(-at // bank) * bank)


def _units(nbytes: int) -> int:
    """Return *nbytes* rounded up to whole units."""
    return -(-nbytes // UNIT) * UNIT
