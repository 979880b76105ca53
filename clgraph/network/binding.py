"""The nodes of a program bound to a device, or to the host, as the commands of a run."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from clgraph.graph.node import Node, Value
from clgraph.network.buffer_table import BufferTable, within_32_bits
from clgraph.network.commands import Command, Segment
from clgraph.network.host import Host
from clgraph.network.node_steps import StepsInLibraries, launch_text, steps_in_libraries
from clgraph.network.tiles import TileExecutor, TileTable
from clgraph.runtime.engine import BoundKernel, KernelArgument
from clgraph.selector.library import Library, compose
from clgraph.selector.plan import Argument, Launch, Step, Table, Tile

_Planned = tuple[Node, StepsInLibraries]
"""A node, and its steps that have anything to do, none where it is in place, with the libraries that tiles run in."""


def commands(
    nodes: Sequence[Node],
    places: BufferTable | None,
    host: Host,
    library: Callable[[str, int], Library] = compose,
    joins: Callable[[TileExecutor], bool] = lambda _: False,
    steps: Mapping[Node, StepsInLibraries] | None = None,
) -> list[Command]:
    """Bind *nodes* in order, to the device of *places* or to the *host* where there is none.

    Args:
        library: Finds libraries by name and SIMD width.
        joins: Whether steps of a table that follow each other are one launch; none are on a queue out of order.
        steps: What :func:`steps_in_libraries` says of the program that *nodes* are a part of, by default the whole.

    Raises:
        KernelBuildError, DeviceMemoryError: A kernel does not build, or does not fit.
    """
    if places is None:
        return [Command(node, "host", "host", functools.partial(host.run, node)) for node in nodes]
    of_node = steps_in_libraries(nodes) if steps is None else steps
    found = [(node, of_node[node]) for node in nodes]
    planned = [(node, own) for node, own in found if own]
    binder = _Binder(planned, places, host, library, joins)
    if places.engine.stream.out_of_order:
        binder.bind_after_each_other(found)
    else:
        binder.bind(planned)
    return binder.found


class _Binder:
    """Appends the commands of one node after the other to ``found``."""

    def __init__(
        self,
        planned: Sequence[_Planned],
        places: BufferTable,
        host: Host,
        library: Callable[[str, int], Library],
        joins: Callable[[TileExecutor], bool],
    ) -> None:
        self.found: list[Command] = []
        self._places, self._host = places, host
        tables = _tile_tables(planned, places, library)
        self._executors = {name: TileExecutor(table, places) for name, table in tables.items()}
        self._joining = {name for name, executor in self._executors.items() if joins(executor)}
        self._done = dict.fromkeys(tables, 0)
        self._latest: dict[str, int] = {}
        self._makers: dict[Value, frozenset[int]] = {}

    def bind(self, planned: Sequence[_Planned]) -> None:
        """Bind for a queue that runs in order."""
        rows = ((node, step, library) for node, steps in planned for step, library in steps)
        for table, row in itertools.groupby(rows, self._joint_table):
            if table is not None:
                self._add_tiles(table, [(node, step) for node, step, _ in row], ())
                continue
            for node, step, library in row:
                self._add(node, step, library, ())

    def _joint_table(self, row: tuple[Node, Step, str]) -> str | None:
        """Return the library of a tile step that is one launch with those before and behind it."""
        return row[2] if row[2] in self._joining else None

    def bind_after_each_other(self, planned: Sequence[_Planned]) -> None:
        """Bind for a queue that runs out of order: each step names those that it waits for.

        A node without steps is among *planned*, too: who reads its results waits for who has made its inputs.
        """
        for node, steps in planned:
            makers = frozenset[int]().union(*(self._makers.get(v, ()) for v in node.inputs))
            for step, library in steps:
                number = len(self.found)
                self._add(node, step, library, tuple(sorted(self._awaited(library, makers, number))))
                # What a step waits for need not be waited for again behind it.
                makers = frozenset({number})
            self._makers |= dict.fromkeys(node.outputs, makers)

    def _awaited(self, library: str, makers: frozenset[int], number: int) -> frozenset[int]:
        """Return what a step waits for: those who make what it reads, and what shares counters and scratch with it."""
        if not library:
            return makers
        before = self._latest.get(library)
        self._latest[library] = number
        return makers if before is None else makers | {before}

    def _add(self, node: Node, step: Step, library: str, after: tuple[int, ...]) -> None:
        if library:
            self._add_tiles(library, [(node, step)], after)
        elif isinstance(step, Launch):
            work = (_bind(node, step, self._places), step.grid, step.group)
            self.found.append(Command(node, step.entry, self._places.placement, work, after))
        else:
            carry = functools.partial(self._host.carry, node.inputs[0], node.output)
            self.found.append(Command(node, "transfer", "host", carry, after))

    def _add_tiles(self, library: str, row: Sequence[tuple[Node, Step]], after: tuple[int, ...]) -> None:
        """Append one launch of the next steps of a table, those of *row*."""
        first, (node, step) = self._done[library], row[0]
        last = self._done[library] = first + len(row)
        tiles = Segment(self._executors[library], first, last)
        self.found.append(Command(node, step.name, self._places.placement, tiles, after))


def _tile_tables(
    planned: Sequence[_Planned], places: BufferTable, library: Callable[[str, int], Library]
) -> dict[str, TileTable]:
    """Return the tile steps of nodes, by library."""
    tables: dict[str, TileTable] = {}
    for node, steps in planned:
        for step, name in steps:
            if isinstance(step, Tile):
                if name not in tables:
                    tables[name] = TileTable(library(name, places.engine.info.simd))
                tables[name].add(node, step)
    return tables


def _bind(node: Node, step: Launch, places: BufferTable) -> BoundKernel:
    args: list[KernelArgument] = []
    lent: list[tuple[int, int]] = []
    with within_32_bits(node):
        for argument in step.args:
            if isinstance(argument, str) and argument != "null":
                lent.append((places.role(node, argument)[0], len(args)))
            args += _arguments(node, argument, places)
    what = f"{step.entry} ({step.source}) of node {node.name!r}"
    kernel = places.engine.kernel(launch_text(step), step.entry, args, what=what)
    for bank, number in lent:
        if bank in places.borrowed.values():
            places.kernels.setdefault(bank, []).append((kernel, number))
    return kernel


def _arguments(node: Node, argument: Argument, places: BufferTable) -> list[KernelArgument]:
    if isinstance(argument, str):
        bank, offset = (0, -1) if argument == "null" else places.role(node, argument)
        return [places.banks[bank], np.int64(offset)]
    if isinstance(argument, Table):
        return [places.table(argument.values)]
    return [np.float32(argument)] if isinstance(argument, float) else [np.int32(argument)]
