"""What would help where a program was refused its memory, with the numbers: computed, by planning it that way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, Self

from clgraph.compilation.batches import common_batch, largest_batch, with_batch
from clgraph.errors import ClgraphError, DeviceMemoryError, MemoryLimitError
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.specialisations import Shapes, Values
from clgraph.network.budget import device_of
from clgraph.network.memory_need import memory_needs, spelled
from clgraph.passes.base import Context
from clgraph.settings import Settings

FEWER_BITS = {"given": ("int8", "int4"), "int8": ("int4",)}
"""What weights may become, by what they are."""
_MOST_KNOWN = 64
"""How many refusals of a compiler are remembered."""


class Planner(Protocol):
    """What plans programs: a compiler; ``ways_out`` are those found before."""

    options: Settings
    context: Context
    ways_out: dict[object, tuple[str, ...]]

    def planned(self, topology: Topology, shapes: Shapes, values: Values | None = None) -> Program:
        """Return what would be run."""

    def dry_with(self, **changes: Any) -> Self:
        """Return a planner under other options that runs nothing."""


def with_ways_out(
    error: MemoryLimitError, compiler: Planner, topology: Topology, shapes: Shapes, values: Values
) -> MemoryLimitError:
    """Return *error*, which refused the program of *topology* for *shapes* and *values*, with what would help.

    Tried, with the room that was left: smaller batches, by *compiler* as they would be compiled; weights of fewer bits,
    without a device. What has been found is remembered: a request that is refused again costs no more.
    """
    known, key = compiler.ways_out, (tuple(shapes.values()), error.room, error.device)
    if key not in known:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        tried = (_of_batches, _of_fewer_bits)
        known[key] = tuple(way for attempt in tried for way in attempt(error, compiler, topology, shapes, values))
    others = ["a second device for a part of the model (--placement)"]
    return MemoryLimitError(error.found, [*known[key], *others, *error.ways], error.room, error.device)


def _of_batches(
    error: MemoryLimitError, compiler: Planner, topology: Topology, shapes: Shapes, values: Values
) -> list[str]:
    """Return the largest batch that fits, where the model takes others than that of *shapes*; or that inputs matter."""
    sizes = {name: tuple(shape) for name, shape in shapes.items()}
    batch = 0 if values or topology.label else common_batch(sizes)

    def takes(entries: int) -> float:
        smaller = with_batch(topology, sizes, entries)
        named = {name: (entries, *shape[1:]) for name, shape in sizes.items()}
        return _taken(error.device, compiler, lambda: compiler.planned(smaller, named))

    if batch > 1:
        try:
            found = largest_batch(takes, error.room, most=batch - 1, beyond=takes(batch))
        except ClgraphError:  # it takes no other batch
            found = 0
        if found:
            return [f"a batch of {found} in place of {batch}"]
    needs = memory_needs(compiler.planned(topology, shapes, values), compiler.context.devices)
    constants = sum(need.constants for need in needs if device_of(need.placement) == error.device)
    return ["smaller inputs"] if constants < error.room else []


def _of_fewer_bits(
    error: MemoryLimitError, compiler: Planner, topology: Topology, shapes: Shapes, values: Values
) -> list[str]:
    """Return what the program takes with weights of fewer bits, of the first kind that fits, or that takes least."""
    before = least = _taken(error.device, compiler, lambda: compiler.planned(topology, shapes, values))
    found: list[str] = []
    for weights in FEWER_BITS.get(compiler.options.weights, ()):
        dry = compiler.dry_with(weights=weights)
        less = _taken(error.device, dry, partial(dry.planned, topology, shapes, values))
        if less >= least:
            continue
        least = less
        what = f"--weights {weights} (in Python, weights={weights!r}): {spelled(less)} in place of {spelled(before)}"
        found = [what if less <= error.room else f"{what}, which alone is too much still"]
        if less <= error.room:
            break
    return found


def _taken(device: str, compiler: Planner, plan: Callable[[], Program]) -> float:
    """Return the bytes that a program takes of a device; more than any where it is not even planned for want of it."""
    try:
        needs = memory_needs(plan(), compiler.context.devices)
    except DeviceMemoryError:
        return float("inf")
    return sum(need.total for need in needs if device_of(need.placement) == device)
