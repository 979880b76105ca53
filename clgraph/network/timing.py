"""Profiled runs: a clock whose steps take down how long each command took on its device."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from clgraph.core.frozen import mutable
from clgraph.graph.primitive import Array
from clgraph.network.bound_program import BoundProgram
from clgraph.network.bound_subgraph import BoundSubgraph
from clgraph.network.command_times import device_seconds, node_time, step_times
from clgraph.network.commands import Command, Segment
from clgraph.network.feed import Held
from clgraph.network.profile import NodeTime, Profile, SubgraphUse
from clgraph.runtime.stream import Step, Stream

_PAUSE = 5e-3
"""Seconds between the two runs that the length of a cycle is taken from; the start of a launch is known to some us."""


@mutable
class Clock:
    """Steps that time themselves, and what the last run of each took.

    Attributes:
        commands: What the steps do, with the identity of its subgraph.
    """

    commands: Sequence[tuple[str, Command]]
    steps: list[Step] = field(default_factory=list)
    begin: float = 0.0
    _found: dict[int, tuple[float, float]] = field(default_factory=dict)
    _cycles: dict[int, list[tuple[int, Array]]] = field(default_factory=dict)

    def start(self) -> None:
        """Begin the run that counts."""
        time.sleep(_PAUSE)
        self._found.clear()
        self.begin = time.perf_counter()

    def note(self, number: int, start: float, seconds: float) -> None:
        """Take down when command *number* started, and how long it took."""
        self._found[number] = (start - self.begin, seconds)

    def note_cycles(self, number: int, started: int, segment: Segment) -> None:
        """Take down the cycle counters of a segment whose launch started at *started* ns of the device's clock."""
        self._cycles.setdefault(number, []).append((started, segment.executor.times(segment.first, segment.last)))

    def times(self) -> list[NodeTime]:
        """Return the record of every command of the last run, and of each tile step inside a launch."""
        found = []
        for number, (start, seconds) in self._found.items():
            subgraph, command = self.commands[number]
            if number not in self._cycles:
                work = command.work
                tickets = work.executor.table.steps[work.first][1].tickets if isinstance(work, Segment) else 0
                found.append(node_time(command, subgraph, start, seconds, tickets))
                continue
            (t0, before), (t1, cycles) = self._cycles[number][-2:]
            passed = int(cycles[0, :, 0].min()) - int(before[0, :, 0].min())
            inside = step_times(cycles, (t1 - t0) * 1e-9 / passed)
            for one, part in zip(command.joined, inside, strict=True):
                at = start + part.start
                found.append(node_time(one, subgraph, at, part.seconds, part.tickets, part.idle))
        return found


def _timed_parts(command: Command) -> tuple[Command, ...]:
    """Return *command*, or the steps it joins where the device has no cycle counter to time them by in one launch."""
    work = command.work
    apart = isinstance(work, Segment) and "cycle_counter" not in work.executor.engine.info.features
    return command.joined or (command,) if apart else (command,)


def timed_steps(subgraphs: Sequence[BoundSubgraph], streams: Mapping[str, Stream], finish: Callable[[], None]) -> Clock:
    """Return a clock whose steps run the launches of *subgraphs* on *streams*, each after *finish*."""
    clock = Clock([(s.subgraph.id, part) for s in subgraphs for c in s.launches for part in _timed_parts(c)])

    def timed(number: int, command: Command) -> Step:
        stream, work = streams.get(command.placement), command.work
        segment = work if isinstance(work, Segment) and work.count > 1 else None
        step = command.on(stream, timed=segment is not None)

        def call() -> None:
            finish()
            start = time.perf_counter()
            event = step()
            if stream is None:
                finish()
                clock.note(number, start, time.perf_counter() - start)
            else:
                times = stream.times(event)
                wait, seconds = device_seconds(times)
                clock.note(number, start + wait, seconds)
                if segment is not None:
                    clock.note_cycles(number, times[1], segment)

        return call

    clock.steps = [timed(number, command) for number, (_, command) in enumerate(clock.commands)]
    return clock


def profiled(bound: BoundProgram, feeds: Mapping[str, Held]) -> Profile:
    """Return the profile of a run of one batch slice. Raises as :meth:`BoundProgram.run`."""
    for engine in bound.engines.values():
        engine.check_process()
    streams = {placement: engine.profiling_stream() for placement, engine in bound.engines.items()}
    clock = timed_steps(bound.subgraphs, streams, bound.finish)
    # The first run warms up, and tells with the second how long a cycle of the device's counters is.
    bound.run(feeds, clock.steps)
    clock.start()
    bound.run(feeds, clock.steps)
    total = time.perf_counter() - clock.begin
    runs = bound.runs + (0 if bound.quick is None else bound.quick.runs)
    parts = [s.subgraph for s in bound.subgraphs]
    used = (SubgraphUse(s.id, s.placement, len(s.nodes), bound.created[s.id], runs) for s in parts)
    return Profile(tuple(clock.times()), total, bound.copies, tuple(used))
