"""Commands of a run: kernels with bound arguments, tile steps, host nodes, copies; the steps that a queue is given."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.errors import ProgramError
from clgraph.graph.node import Node
from clgraph.network.tiles import TileExecutor
from clgraph.runtime.engine import BoundKernel
from clgraph.runtime.stream import Step as Enqueue
from clgraph.runtime.stream import Stream

Kernel = tuple[BoundKernel, tuple[int, ...], tuple[int, ...] | None]
"""A kernel with its arguments, its grid and its group."""


@frozen
class Segment:
    """Consecutive tile steps of one table, run as one launch: steps *first* to *last* (exclusive)."""

    executor: TileExecutor
    first: int
    last: int

    @property
    def count(self) -> int:
        """The number of steps."""
        return self.last - self.first

    def bind(self, *, timed: bool = False) -> Kernel:
        """Return its kernel; with *timed*, one that writes times."""
        return self.executor.bind(self.first, self.last, timed=timed)


@frozen
class Command:
    """A command of a run: a kernel launch, a tile step, a host node or a copy.

    Attributes:
        what: The kernel, tile function, ``host`` or ``transfer``.
        placement: Where; ``host`` for the two that have no kernel.
        work: What the host does, the kernel, or a tile step.
        after: Numbers of the last commands that it waits for: those before them are over when they are. None on a queue
            that runs in order.
    """

    node: Node
    what: str
    placement: str
    work: Enqueue | Kernel | Segment
    after: tuple[int, ...] = ()

    @property
    def joined(self) -> tuple[Command, ...]:
        """The commands that it stands for, made anew: tile steps that are run as one launch; none for one alone."""
        work = self.work
        if not isinstance(work, Segment) or work.count == 1:
            return ()
        rows = enumerate(work.executor.table.steps[work.first : work.last], work.first)
        return tuple(
            Command(node, tile.function, self.placement, Segment(work.executor, number, number + 1))
            for number, (node, tile) in rows
        )

    @property
    def is_launch(self) -> bool:
        """Whether it is given to a queue; else the host does it, and it is over when the next command is given."""
        return isinstance(self.work, tuple | Segment)

    def on(self, stream: Stream | None, *, timed: bool = False) -> Enqueue:
        """Return the step that does it, in order, on *stream*; with *timed*, tile steps write their times."""
        if not isinstance(self.work, tuple | Segment):
            return self.work
        if stream is None:
            raise ProgramError(f"node {self.node.name!r}: {self.what} needs a stream")
        kernel, grid, group = self.work.bind(timed=timed) if isinstance(self.work, Segment) else self.work
        return kernel.on(stream, grid, group)


def recorded_steps(found: Sequence[Command], stream: Stream) -> tuple[list[Enqueue], int]:
    """Return the steps of *found* with launches that follow each other recorded as one, on a queue that runs in order.

    Also returns how many such recordings there are.
    """
    steps: list[Enqueue] = []
    made = 0
    for launched, group in itertools.groupby(found, lambda c: c.is_launch):
        row = list(group)
        if not launched:
            steps += ordered_steps(row, stream)
            continue
        work = [c.work.bind() if isinstance(c.work, Segment) else c.work for c in row]
        launches = [(kernel.handle, grid, size) for kernel, grid, size in (w for w in work if isinstance(w, tuple))]
        steps.append(stream.recorded(launches))
        made += 1
    return steps, made


def ordered_steps(found: Sequence[Command], stream: Stream | None) -> list[Enqueue]:
    """Return the steps of *found*: on a queue that runs in order just that, on another each after those it needs."""
    events: list[Any] = [None] * len(found)
    steps: list[Enqueue] = []
    for number, command in enumerate(found):
        if stream is None or not stream.out_of_order or not isinstance(command.work, tuple | Segment):
            steps.append(command.on(stream))
        else:
            kernel, grid, group = command.work.bind() if isinstance(command.work, Segment) else command.work
            # What the host does in between has no event.
            after = tuple(n for n in command.after if found[n].is_launch)
            steps.append(stream.launch_after(kernel.handle, grid, group, events, number, after))
    return steps
