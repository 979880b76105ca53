"""The nodes of a program as prepared commands: kernels with their arguments bound, tile steps, host nodes, copies."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clgraph.errors import ProgramError
from clgraph.graph.program import Node, Program, Value
from clgraph.network.host import Host
from clgraph.network.places import Places
from clgraph.network.tiles import TileExecutor, TileTable
from clgraph.passes.selection import choice_of, is_in_place
from clgraph.runtime.engine import KernelArgument
from clgraph.runtime.stream import Step, Stream
from clgraph.selector.library import compose
from clgraph.selector.plan import Argument, Launch, Table, Tile
from clgraph.selector.sources import kernel_text


@dataclass(frozen=True)
class Command:
    """One thing that a run does.

    Attributes:
        what: The kernel, tile function, ``host`` or ``copy``.
        placement: Where; the host's commands have no stream and return nothing.
        on: Makes the step for a stream.
    """

    node: Node
    what: str
    placement: str
    on: Callable[[Stream | None], Step]


def visitors(program: Program, placement: str) -> list[Value]:
    """Return the values that nodes of *placement* read and that live elsewhere."""
    nodes = [n for n in program if n.placement == placement]
    read = dict.fromkeys(v for n in nodes for v in n.inputs if v.constant is None and v.buffer is not None)
    return [v for v in read if v.buffer is not None and v.buffer.placement != placement]


def commands(program: Program, places: Mapping[str, Places], host: Host) -> list[Command]:
    """Bind every node of *program* in order.

    Raises:
        KernelBuildError, DeviceMemoryError: A kernel does not build, or does not fit.
    """
    tables = tile_tables(program, places)
    executors = {key: TileExecutor(table, places[key[0]]) for key, table in tables.items()}
    numbers = {key: iter(range(len(table.steps))) for key, table in tables.items()}
    arrived: set[tuple[Value, str]] = set()
    found: list[Command] = []
    for node in program:
        placement = node.placement or ""
        if placement not in places:
            found.append(Command(node, "host", "host", lambda _, node=node: functools.partial(host.run, node)))  # type: ignore[misc]
            continue
        here = places[placement]
        for value in node.inputs:
            if value in here.fixed and value.constant is None and (value, placement) not in arrived:
                arrived.add((value, placement))
                copy = functools.partial(host.carry, value, here)
                found.append(Command(node, "copy", "host", lambda _, copy=copy: copy))  # type: ignore[misc]
        for step in steps_of(node):
            if isinstance(step, Launch):
                kernel = _bind(node, step, here)
                on = functools.partial(_launch, kernel, step.grid, step.group)
                found.append(Command(node, step.entry, placement, on))
            else:
                key = (placement, step.library)
                number = next(numbers[key])
                on = functools.partial(_launch, *executors[key].bind(number, number + 1))
                found.append(Command(node, step.function, placement, on))
    return found


def steps_of(node: Node) -> list[Launch | Tile]:
    """Return the steps of a node on a device that have anything to do."""
    if is_in_place(node):
        return []
    steps = choice_of(node).plan().steps
    return [s for s in steps if (s.tickets if isinstance(s, Tile) else all(s.grid))]


def tile_tables(program: Program, places: Mapping[str, Places]) -> dict[tuple[str, str], TileTable]:
    """Return the tile steps of each device, by placement and library."""
    tables: dict[tuple[str, str], TileTable] = {}
    for node in program:
        placement = node.placement or ""
        for step in steps_of(node) if placement in places else ():
            if isinstance(step, Tile):
                key = (placement, step.library)
                if key not in tables:
                    tables[key] = TileTable(compose(step.library, places[placement].engine.info.simd))
                tables[key].add(node, step)
    return tables


def launch_text(step: Launch) -> str:
    """Return the complete text of a kernel of its own."""
    return f"{step.jit}{kernel_text(step.source)}"


def _launch(kernel: Any, grid: tuple[int, ...], group: tuple[int, ...] | None, stream: Stream | None) -> Step:
    if stream is None:
        raise ProgramError("a kernel needs a stream")
    step: Step = kernel.on(stream, grid, group)
    return step


def _bind(node: Node, step: Launch, places: Places) -> Any:
    args: list[KernelArgument] = []
    for argument in step.args:
        args += _arguments(node, argument, places)
    what = f"{step.entry} ({step.source}) of node {node.name!r}"
    return places.engine.kernel(launch_text(step), step.entry, args, what=what)


def _arguments(node: Node, argument: Argument, places: Places) -> list[KernelArgument]:
    if isinstance(argument, str):
        bank, offset = (0, -1) if argument == "null" else places.role(node, argument)
        return [places.banks[bank], np.int64(offset)]
    if isinstance(argument, Table):
        return [places.table(argument.values)]
    return [np.float32(argument)] if isinstance(argument, float) else [np.int32(argument)]


def texts(program: Program, placements: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, bool]]:
    """Return every kernel text that the plans name, as (what, is a library) by (placement, text)."""
    found: dict[tuple[str, str], tuple[str, bool]] = {}
    for node in program:
        placement = node.placement or ""
        for step in steps_of(node) if placement in placements else ():
            if isinstance(step, Launch):
                found[placement, launch_text(step)] = (f"{step.entry} ({step.source}) of {node.name!r}", False)
            else:
                library = compose(step.library, placements[placement].info.simd)
                found[placement, library.text] = (f"library {library.name}", True)
    return found
