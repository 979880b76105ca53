"""What the network of a planned program will allocate, known before anything is; and a limit that it keeps."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from clgraph.core.frozen import frozen
from clgraph.errors import MemoryLimitError
from clgraph.graph.node import Value
from clgraph.graph.program import Program
from clgraph.network.borrowing import readable_in_place, updated
from clgraph.network.budget import MemoryBudget, device_of
from clgraph.network.constants import SLACK, UNIT
from clgraph.network.node_steps import steps_of
from clgraph.network.result_memory import MOST_BYTES, kept_bytes
from clgraph.network.workspace import ARENA, STAND_IN, Workspace, scratch_of
from clgraph.runtime.executor import RECORD, counter_count
from clgraph.selector.descriptor import PostStep
from clgraph.selector.libraries import run_in
from clgraph.selector.plan import Tile
from clgraph.selector.query import DeviceInfo

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@frozen
class MemoryNeed:
    """Bytes that a program takes on one device.

    Attributes:
        activations: The arena of what nodes hand on; of one slice, where a batch is computed in slices.
        constants: Weights and other constants, as its kernels read them.
        inputs: Memory for inputs that are read where the caller has them, for those that lie badly.
        scratch: What the workers of tile functions need for themselves.
        tables: Steps of tile functions, and their counters.
        results: Memory of large results, which is kept for later runs.
        shared: Bytes of what networks of one model share, by use.
    """

    placement: str
    activations: int
    constants: int
    inputs: int = 0
    scratch: int = 0
    tables: int = 0
    results: int = 0
    shared: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All of it."""
        return self.activations + self.constants + self.inputs + self.scratch + self.tables + self.results

    def __str__(self) -> str:
        parts = [
            f"{spelled(count)} of {name}"
            for name in ("constants", "activations", "inputs", "scratch", "tables", "results")
            if (count := getattr(self, name))
        ]
        return f"{spelled(self.total)} on {self.placement} ({', '.join(parts) or 'nothing'})"


def spelled(nbytes: float) -> str:
    """Return a number of bytes in a unit that fits it."""
    unit = 0
    while nbytes >= 1024 and unit < len(UNITS) - 1:
        nbytes, unit = nbytes / 1024, unit + 1
    return f"{nbytes:.0f} {UNITS[unit]}" if unit == 0 else f"{nbytes:.1f} {UNITS[unit]}"


def spelled_up(nbytes: int) -> str:
    """Return a number of bytes as :func:`spelled`, rounded up: what is given so much has enough."""
    text = spelled(nbytes)
    unit = 1024 ** UNITS.index(text.split()[1])
    return f"{math.ceil(nbytes * 10 / unit) / 10:.1f} {text.split()[1]}" if unit > 1 else text


def memory_needs(program: Program, devices: Mapping[str, DeviceInfo]) -> tuple[MemoryNeed, ...]:
    """Return what a planned *program* takes on each of *devices* that it uses, but for the host."""
    used = dict.fromkeys([*program.arenas, *(n.placement or "" for n in program)])
    results = sum(kept_bytes(program.batch_slices * v.layout.nbytes) for _, v in program.outputs)
    found: list[MemoryNeed] = []
    for placement in used:
        info = devices.get(placement)
        if info is not None and info.kind != "host":
            found.append(_need(program, placement, info, 0 if found else min(results, MOST_BYTES)))
    return tuple(found)


def _need(program: Program, placement: str, info: DeviceInfo, results: int) -> MemoryNeed:
    nodes = [n for n in program if n.placement == placement]
    arrays = {id(v.constant): v.layout.nbytes for n in nodes for v in n.inputs if v.constant is not None}
    inputs = {*readable_in_place(program, placement, info), *updated(program, placement)}
    tiles = [step for n in nodes if info.kind == "cpu" for step in steps_of(n) if isinstance(step, Tile)]
    libraries = run_in([tile.library for tile in tiles])
    scratch = dict.fromkeys(libraries, 0)
    for tile, library in zip(tiles, libraries, strict=True):
        scratch[library] = max(scratch[library], -(-tile.scratch // UNIT) * UNIT)
    counts = Counter(libraries)
    step = struct.calcsize(RECORD)
    tables = sum(step + tile.descriptor.nbytes + len(tile.post) * PostStep.LAYOUT.size for tile in tiles)
    counters = sum(4 * counter_count(count, info.workers) for count in counts.values())
    arena = program.arenas.get(placement)
    return MemoryNeed(
        placement,
        0 if arena is None else arena.nbytes,
        sum(-(-(size + SLACK) // UNIT) * UNIT for size in arrays.values()),
        sum(v.layout.nbytes for v in inputs),
        sum(scratch.values()) * info.workers,
        tables + counters,
        results,
        {
            ARENA: _parts(0 if arena is None else arena.nbytes, info.max_alloc // UNIT * UNIT),
            STAND_IN: [v.layout.nbytes for v in readable_in_place(program, placement, info)],
        }
        | {scratch_of(library): [nbytes * info.workers] for library, nbytes in scratch.items()},
    )


def _parts(nbytes: int, most: int) -> list[int]:
    """Return the sizes of the allocations that *nbytes* are cut into, of *most* bytes but for the last."""
    return [min(most, nbytes - start) for start in range(0, nbytes, most)]


def admit(program: Program, devices: Mapping[str, DeviceInfo], workspace: Workspace) -> None:
    """Promise a planned *program* its memory, or refuse it where it would exceed a budget of its *workspace*.

    Raises:
        MemoryLimitError: It would, with what else counts there, on one of *devices*; the numbers, and what would help.
    """
    account = workspace.account
    if account.budget is None:
        return
    needs = memory_needs(program, devices)

    def promise() -> None:
        for need in needs:
            workspace.promise(need.placement, need.total - need.constants, need.constants, need.shared)

    admitted(account.budget, lambda b: _excess(b, needs, workspace), promise, lambda e: _refused(program, e))


def admitted(
    budget: MemoryBudget,
    exceeds: Callable[[MemoryBudget], Excess | None],
    promise: Callable[[], None],
    refused: Callable[[Excess], MemoryLimitError],
) -> None:
    """Make a *promise* of memory once there is room for it.

    Args:
        exceeds: Says what would be too much in *budget*, and in those that it is a part of.
        refused: Makes the error to raise where nobody makes room.
    """
    while True:
        with budget.lock:
            before = budget.changes
            excess = next(filter(None, map(exceeds, budget.chain)), None)
            if excess is None:
                promise()
                budget.changed()
                return
        # Without the lock: who gives memory back waits for those who use it.
        found = not excess.is_own and budget.make_room_on(device_of(excess.need.placement))
        # Who was in the way may have gone for somebody else's sake.
        if not found and (excess.is_own or budget.changes == before):
            raise refused(excess)


@frozen
class Excess:
    """What a program, or something else, would take too much of a device.

    Attributes:
        need: What it takes on the device; ``own`` and ``others`` what the same model, and others, take beside it.
    """

    budget: MemoryBudget
    need: MemoryNeed
    own: int
    others: int

    @property
    def beside(self) -> int:
        """Bytes that are taken beside the program."""
        return self.own + self.others

    @property
    def exists(self) -> bool:
        """Whether it is above the budget."""
        return self.need.total + self.beside > self.budget

    @property
    def is_own(self) -> bool:
        """Whether it would be, too, where no other model took anything."""
        return self.need.total + self.own > self.budget


def _excess(budget: MemoryBudget, needs: Sequence[MemoryNeed], workspace: Workspace) -> Excess | None:
    """Return what *needs* would take too much of a device within *budget*; ``None`` where they fit."""
    if not budget:
        return None
    account = workspace.account
    after = account.by_placement()
    for need in needs:
        with account.lock:
            members = sum(other.taken(need.placement) for other in account.members if other is not workspace)
        constants = max(need.constants, account.constants.get(need.placement, 0))
        beside = workspace.beside(need.placement, need.shared)
        after[need.placement] = constants + need.total - need.constants + beside + members
    for need in needs:
        device = device_of(need.placement)
        own = sum(nbytes for placement, nbytes in after.items() if device_of(placement) == device)
        found = Excess(budget, need, own - need.total, budget.beside(account, device))
        if found.exists:
            return found
    return None


def _refused(program: Program, excess: Excess) -> MemoryLimitError:
    need, limit = excess.need, int(excess.budget)
    sizes = ", ".join(f"{v.name} {_shape(program, v)}" for v in program.inputs)
    beside = [
        f"{spelled(nbytes)} of {what}"
        for nbytes, what in (
            (excess.own, "clones and other shapes"),
            (excess.others, "other models, stages or streams"),
        )
        if nbytes
    ]
    others = f", beside {' and '.join(beside)}" if beside else ""
    found = f"for {sizes} the model takes {need}{others}, and memory_limit allows {spelled(limit)}"
    ways = ["fewer of them"] * bool(beside) + [f"a memory_limit of {spelled_up(need.total + excess.beside)}"]
    return MemoryLimitError(found, ways, limit - excess.beside, device_of(need.placement))


def _shape(program: Program, value: Value) -> list[int]:
    """Return the shape of an input as the caller has it, which is of all slices."""
    shape = list(value.layout.shape)
    return [program.batch_slices * shape[0], *shape[1:]] if shape else shape
