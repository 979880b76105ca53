"""The nodes of a program as prepared commands: kernels with their arguments bound, tile steps, host nodes, copies."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ProgramError
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.network.buffer_table import BufferTable, within_32_bits
from clgraph.network.host import Host
from clgraph.network.tiles import TileExecutor, TileTable
from clgraph.passes.selection import choice_of
from clgraph.runtime.engine import BoundKernel, KernelArgument
from clgraph.runtime.stream import Step as Enqueue
from clgraph.runtime.stream import Stream
from clgraph.selector.library import Library, compose
from clgraph.selector.plan import Argument, Carry, Launch, Step, Table, Tile
from clgraph.selector.sources import kernel_text

Kernel = tuple[BoundKernel, tuple[int, ...], tuple[int, ...] | None]
"""A kernel with its arguments, its grid and its group."""


@frozen
class Segment:
    """Consecutive tile steps of one table, run as one launch: steps *first* to *last* (exclusive)."""

    executor: TileExecutor
    first: int
    last: int

    def bind(self, *, timed: bool = False) -> Kernel:
        """Return its kernel; with *timed*, one that writes times."""
        return self.executor.bind(self.first, self.last, timed=timed)


@frozen
class Command:
    """One thing that a run does.

    Attributes:
        what: The kernel, tile function, ``host`` or ``transfer``.
        placement: Where; ``host`` for the two that have no kernel.
        work: What the host does, the kernel, or a tile step.
        after: Numbers of the last commands that it waits for: those before them are over when they are.
        joined: The commands that it stands for: tile steps that are run as one launch.
    """

    node: Node
    what: str
    placement: str
    work: Enqueue | Kernel | Segment
    after: tuple[int, ...] = ()
    joined: tuple[Command, ...] = ()

    def on(self, stream: Stream | None, *, timed: bool = False) -> Enqueue:
        """Return the step that does it, in order, on *stream*; with *timed*, tile steps write their times."""
        if not isinstance(self.work, tuple | Segment):
            return self.work
        if stream is None:
            raise ProgramError(f"node {self.node.name!r}: {self.what} needs a stream")
        kernel, grid, group = self.work.bind(timed=timed) if isinstance(self.work, Segment) else self.work
        return kernel.on(stream, grid, group)


def join(found: Sequence[Command], joins: Callable[[str, TileExecutor], bool]) -> list[Command]:
    """Return the commands of *found* with tile steps of one table that follow each other as one.

    Args:
        joins: Whether the steps of a placement's table may be joined.
    """
    groups: list[list[Command]] = []
    number_of: list[int] = []
    for command in found:
        if groups and _same_table(groups[-1][-1], command, joins):
            groups[-1].append(command)
        else:
            groups.append([command])
        number_of.append(len(groups) - 1)
    made = []
    for number, (first, *others) in enumerate(groups):
        needs = {number_of[n] for command in (first, *others) for n in command.after}
        after, work = tuple(sorted(needs - {number})), first.work
        if others and isinstance(work, Segment) and isinstance(others[-1].work, Segment):
            work = replace(work, last=others[-1].work.last)
        made.append(replace(first, work=work, after=after, joined=(first, *others) if others else ()))
    return made


def _same_table(last: Command, command: Command, joins: Callable[[str, TileExecutor], bool]) -> bool:
    if not isinstance(last.work, Segment) or not isinstance(command.work, Segment):
        return False
    executor = command.work.executor
    return last.work.executor is executor and joins(command.placement, executor)


def recorded_steps(
    found: Sequence[Command], streams: Mapping[str, Stream], records: Container[str]
) -> tuple[list[Enqueue], Counter[str]]:
    """Return the steps of *found* with launches that follow each other on placements of *records* recorded as one.

    Also returns how many such recordings each placement has. Their queues run in order.
    """
    steps: list[Enqueue] = []
    made: Counter[str] = Counter()
    for placement, group in itertools.groupby(found, lambda c: c.placement if _launches(c) else "host"):
        row = list(group)
        if placement not in records:
            steps += ordered_steps(row, streams)
            continue
        work = [c.work.bind() if isinstance(c.work, Segment) else c.work for c in row]
        launches = [(kernel.handle, grid, size) for kernel, grid, size in (w for w in work if isinstance(w, tuple))]
        steps.append(streams[placement].recorded(launches))
        made[placement] += 1
    return steps, made


def _launches(command: Command) -> bool:
    return isinstance(command.work, tuple | Segment)


def ordered_steps(found: Sequence[Command], streams: Mapping[str, Stream]) -> list[Enqueue]:
    """Return the steps of *found*: on a queue that runs in order just that, on another each after those it needs."""
    events: list[Any] = [None] * len(found)
    launched: dict[int, Stream] = {}
    steps: list[Enqueue] = []
    for number, command in enumerate(found):
        stream = streams.get(command.placement)
        if stream is None or not stream.out_of_order or not isinstance(command.work, tuple | Segment):
            steps.append(command.on(stream))
        else:
            kernel, grid, group = command.work.bind() if isinstance(command.work, Segment) else command.work
            # What the host does in between is over when the next command is given, and has no event.
            after = tuple(n for n in command.after if launched.get(n) is stream)
            launched[number] = stream
            steps.append(stream.launch_after(kernel.handle, grid, group, events, number, after))
    return steps


def commands(
    program: Program, places: Mapping[str, BufferTable], host: Host, library: Callable[[str, int], Library] = compose
) -> list[Command]:
    """Bind every node of *program* in order; *library* finds libraries by name and SIMD width.

    Raises:
        KernelBuildError, DeviceMemoryError: A kernel does not build, or does not fit.
    """
    binder = _Binder(program, places, host, library)
    for node in program:
        binder.bind(node)
    return binder.found


class _Binder:
    """Appends the commands of one node after the other to ``found``."""

    def __init__(
        self,
        program: Program,
        places: Mapping[str, BufferTable],
        host: Host,
        library: Callable[[str, int], Library],
    ) -> None:
        self.found: list[Command] = []
        self._places, self._host = places, host
        tables = tile_tables(program, places, library)
        self._executors = {key: TileExecutor(table, places[key[0]]) for key, table in tables.items()}
        self._done = dict.fromkeys(tables, 0)
        self._latest: dict[tuple[str, str], int] = {}
        self._makers: dict[Value, frozenset[int]] = {}

    def bind(self, node: Node) -> None:
        makers = frozenset[int]().union(*(self._makers.get(v, ()) for v in node.inputs))
        placement = node.placement or ""
        if placement not in self._places:
            self.found.append(Command(node, "host", "host", functools.partial(self._host.run, node)))
        else:
            for step in steps_of(node):
                # What a step waits for need not be waited for again behind it.
                makers = frozenset({self._add(node, step, self._places[placement], placement, makers)})
        self._makers |= dict.fromkeys(node.outputs, makers)

    def _add(self, node: Node, step: Step, places: BufferTable, placement: str, after: frozenset[int]) -> int:
        number = len(self.found)
        if isinstance(step, Carry):
            carry = functools.partial(self._host.carry, node.inputs[0], node.output)
            self.found.append(Command(node, "transfer", "host", carry, tuple(sorted(after))))
            return number
        if isinstance(step, Launch):
            work = (_bind(node, step, places), step.grid, step.group)
            self.found.append(Command(node, step.entry, placement, work, tuple(sorted(after))))
            return number
        key = (placement, step.library)
        # The steps of a table share counters and the workers' scratch.
        if key in self._latest:
            after |= {self._latest[key]}
        self._latest[key] = number
        first = self._done[key]
        self._done[key] += 1
        tile = Segment(self._executors[key], first, first + 1)
        self.found.append(Command(node, step.function, placement, tile, tuple(sorted(after))))
        return number


def steps_of(node: Node) -> list[Step]:
    """Return the steps of a node on a device that have anything to do."""
    if node.in_place:
        return []
    return [s for s in choice_of(node).plan().steps if not _idle(s)]


def _idle(step: Step) -> bool:
    return not (step.tickets if isinstance(step, Tile) else all(step.grid) if isinstance(step, Launch) else True)


def tile_tables(
    program: Program, places: Mapping[str, BufferTable], library: Callable[[str, int], Library] = compose
) -> dict[tuple[str, str], TileTable]:
    """Return the tile steps of each device, by placement and library."""
    tables: dict[tuple[str, str], TileTable] = {}
    for node in program:
        placement = node.placement or ""
        for step in steps_of(node) if placement in places else ():
            if isinstance(step, Tile):
                key = (placement, step.library)
                if key not in tables:
                    tables[key] = TileTable(library(step.library, places[placement].engine.info.simd))
                tables[key].add(node, step)
    return tables


def launch_text(step: Launch) -> str:
    """Return the complete text of a kernel of its own."""
    return f"{step.jit}{kernel_text(step.source)}"


def _bind(node: Node, step: Launch, places: BufferTable) -> BoundKernel:
    args: list[KernelArgument] = []
    with within_32_bits(node):
        for argument in step.args:
            args += _arguments(node, argument, places)
    what = f"{step.entry} ({step.source}) of node {node.name!r}"
    return places.engine.kernel(launch_text(step), step.entry, args, what=what)


def _arguments(node: Node, argument: Argument, places: BufferTable) -> list[KernelArgument]:
    if isinstance(argument, str):
        bank, offset = (0, -1) if argument == "null" else places.role(node, argument)
        return [places.banks[bank], np.int64(offset)]
    if isinstance(argument, Table):
        return [places.table(argument.values)]
    return [np.float32(argument)] if isinstance(argument, float) else [np.int32(argument)]


def texts(program: Program, placements: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, bool]]:
    """Return every kernel text that the plans name, as (what, is a library) by (placement, text)."""
    found: dict[tuple[str, str], tuple[str, bool]] = {}
    libraries: dict[tuple[str, str], Library] = {}
    for node in program:
        placement = node.placement or ""
        for step in steps_of(node) if placement in placements else ():
            if isinstance(step, Launch):
                found[placement, launch_text(step)] = (f"{step.entry} ({step.source}) of {node.name!r}", False)
            elif isinstance(step, Tile) and (key := (placement, step.library)) not in libraries:
                library = libraries[key] = compose(step.library, placements[placement].info.simd)
                found[placement, library.text] = (f"library {library.name}", True)
    return found
