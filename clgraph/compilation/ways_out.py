"""Remedies for a program that exceeds its memory limit, with numbers, found by planning the program with each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, Self

from clgraph.compilation.batches import common_batch, largest_batch, with_batch
from clgraph.errors import ClgraphError, DeviceMemoryError, MemoryLimitError
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.specialisation import Shapes, Values
from clgraph.network.budget import device_of
from clgraph.network.memory_need import MemoryNeed, memory_needs, spelled
from clgraph.passes.base import Context
from clgraph.settings import Settings

FEWER_BITS = {"given": ("int8", "int4"), "int8": ("int4",)}
"""What weights may become, by what they are."""
MOST_SAVED = 7 / 8
"""The share of constants that weights of 4 bits save at most, of 32: what it takes beside their scales is tried."""
MOST_PARTS = 16
"""So many devices are tried to hold a model at most."""
_MOST_KNOWN = 64
"""How many refusals of a compiler are remembered."""


class Planner(Protocol):
    """What plans programs: a compiler; ``limits`` are budgets of devices, ``ways_out`` those found before."""

    options: Settings
    context: Context
    limits: dict[str, int]
    ways_out: dict[object, tuple[str, ...]]

    def planned(self, topology: Topology, shapes: Shapes, values: Values | None = None) -> Program:
        """Return what would be run."""

    def dry_with(self, **changes: Any) -> Self:
        """Return a planner under other options that runs nothing."""


def with_ways_out(
    error: MemoryLimitError, compiler: Planner, topology: Topology, shapes: Shapes, values: Values
) -> MemoryLimitError:
    """Return *error*, which refused the program of *topology* for *shapes* and *values*, with what would help.

    Tried, with the room that was left: smaller batches, by *compiler* as they would be compiled; without a device,
    weights of fewer bits, and parts of the model on several devices. Where shapes come with requests, what takes longer
    is tried only if no batch fits. What has been found is remembered.
    """
    known, key = compiler.ways_out, (tuple(map(tuple, shapes.values())), error.room, error.device)
    if key not in known:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        found = _of_batches(error, compiler, topology, shapes, values)
        if not found or all(signature.is_fixed for signature in topology.inputs.values()):
            tried = (_of_inputs,) * (not found) + (_of_fewer_bits, _of_devices)
            found += [way for attempt in tried for way in attempt(error, compiler, topology, shapes, values)]
        known[key] = tuple(found)
    return MemoryLimitError(error.found, [*known[key], *error.ways], error.room, error.device)


def _of_batches(
    error: MemoryLimitError, compiler: Planner, topology: Topology, shapes: Shapes, values: Values
) -> list[str]:
    """Return the largest batch that fits, where the model takes others than that of *shapes*."""
    sizes = {name: tuple(shape) for name, shape in shapes.items()}
    batch = 0 if values or topology.label else common_batch(sizes)

    def takes(entries: int) -> float:
        smaller = with_batch(topology, sizes, entries)
        named = {name: (entries, *shape[1:]) for name, shape in sizes.items()}
        return _taken(error.device, compiler, lambda: compiler.planned(smaller, named))

    if batch < 2:
        return []
    try:
        found = largest_batch(takes, error.room, most=batch - 1, beyond=takes(batch))
    except ClgraphError:  # it takes no other batch
        return []
    return [f"a batch of {found} in place of {batch}"] if found else []


def _of_inputs(
    error: MemoryLimitError, compiler: Planner, topology: Topology, shapes: Shapes, values: Values
) -> list[str]:
    """Say that smaller inputs might help: unless constants take all there is."""
    needs = _needs(compiler, topology, shapes, values)
    constants = sum(need.constants for need in needs if device_of(need.placement) == error.device)
    return ["smaller inputs"] if constants < error.room else []


def _of_fewer_bits(
    error: MemoryLimitError, compiler: Planner, topology: Topology, shapes: Shapes, values: Values
) -> list[str]:
    """Return what the program takes with weights of fewer bits, of the first kind that fits, or that takes least."""
    needs = [n for n in _needs(compiler, topology, shapes, values) if device_of(n.placement) == error.device]
    before = least = float(sum(need.total for need in needs))
    if before - MOST_SAVED * sum(need.constants for need in needs) > error.room:
        return []
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


def _of_devices(
    error: MemoryLimitError, compiler: Planner, topology: Topology, shapes: Shapes, values: Values
) -> list[str]:
    """Return how many devices like the one that is too small hold the model in parts, and what each part takes."""
    devices = compiler.context.devices
    if topology.label or error.device not in devices or sum(d.kind != "host" for d in devices.values()) > 1:
        return []
    names = [error.device, *(f"{error.device}, number {n}" for n in range(2, MOST_PARTS + 1))]
    dry = compiler.dry_with()
    like = {name: replace(devices[error.device], name=name) for name in names}
    dry.context = replace(dry.context, devices=like, free=tuple(names), placement=(), fallback=())
    dry.limits = dict.fromkeys(names, error.room)
    try:
        parts = memory_needs(dry.planned(topology, shapes, values), like)
    except ClgraphError:  # a layer alone takes more, or the host is needed
        return []
    sizes = ", ".join(spelled(need.total) for need in parts)
    return [f"{len(parts)} such devices, in parts of {sizes} (--placement-budget DEVICE=SIZE)"]


def _needs(compiler: Planner, topology: Topology, shapes: Shapes, values: Values) -> tuple[MemoryNeed, ...]:
    return memory_needs(compiler.planned(topology, shapes, values), compiler.context.devices)


def _taken(device: str, compiler: Planner, plan: Callable[[], Program]) -> float:
    """Return the bytes that a program takes of a device; more than any where it is not even planned for want of it."""
    try:
        needs = memory_needs(plan(), compiler.context.devices)
    except DeviceMemoryError:
        return float("inf")
    return sum(need.total for need in needs if device_of(need.placement) == device)
