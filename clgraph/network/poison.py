"""Poisoned runs: unused memory is filled with NaN, and writes outside of results are detected (option ``poison``)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.network.buffer_table import BufferTable
from clgraph.network.commands import Command, Segment
from clgraph.network.constants import UNIT
from clgraph.network.strays import StrayWrites
from clgraph.network.watch import alone, commands_by_node
from clgraph.runtime.stream import Step, Stream

NAN = 0xFF
"""This byte repeated is a NaN in every floating-point type and -1 in every signed integer."""


def poisoned_steps(
    program: Program,
    found: Sequence[Command],
    places: Mapping[str, BufferTable],
    streams: Mapping[str, Stream],
    order: Sequence[Node] | None = None,
) -> list[Step]:
    """Return the steps of a run, one after the other, between which every buffer is filled with NaN outside its life.

    First everything but the inputs is filled; then each buffer before its first write and after its last use, and the
    workers' scratch before every tile step. When these are is what the plan says (``Buffer.first`` and ``last``),
    so that a plan that ends a life too early is found as well as one that places two buffers over each other.
    A node that writes outside of its own buffers raises ``ProgramError``.

    Args:
        order: Another execution order than the program's; lives are then taken from it instead of from the plan.
    """
    nodes = list(program) if order is None else list(order)
    lives = planned_lives(program) if order is None else lives_in(program, nodes)
    by_node, guard = commands_by_node(found), StrayWrites(places)
    steps: list[Step | None] = [guard.begin]
    steps += [_filling(places, *gap) for gap in _outside_inputs(program, places)]
    for position, node in enumerate(nodes):
        steps += [_emptying(places, b) for b, (first, _) in lives.items() if first == position]
        work: list[Step] = []
        for command in by_node.get(node, ()):
            if isinstance(command.work, Segment):
                work.append(functools.partial(command.work.executor.spoil, NAN))
            work.append(alone(command, streams.get(command.placement)))
        steps += guard.around(node, work)
        steps += [_emptying(places, b) for b, (_, last) in lives.items() if last == position]
    steps.append(guard.end)
    return [step for step in steps if step is not None]


def planned_lives(program: Program) -> dict[Buffer, tuple[int, int]]:
    """Return first and last position of every buffer as planned."""
    return {b: (b.first, b.last) for b in program.buffers}


def lives_in(program: Program, order: Sequence[Node]) -> dict[Buffer, tuple[int, int]]:
    """Return first and last position of every buffer in *order*, taken from the edges alone.

    A node that shares the buffer of its input counts as a use; inputs live from -1, outputs until the end.
    """
    lives: dict[Buffer, tuple[int, int]] = {}

    def touch(buffer: Buffer | None, position: int) -> None:
        if buffer is not None:
            first, last = lives.get(buffer, (position, position))
            lives[buffer] = (min(first, position), max(last, position))

    for value in program.inputs:
        touch(value.buffer, -1)
    for position, node in enumerate(order):
        for value in (*node.inputs, *node.outputs):
            touch(value.buffer, position)
        for buffer in node.scratch:
            touch(buffer, position)
    for _, value in program.outputs:
        touch(value.buffer, len(order))
    return lives


def _outside_inputs(program: Program, places: Mapping[str, BufferTable]) -> list[tuple[str, int, int]]:
    """Return (placement, offset, bytes) of all of every arena that no input lies in."""
    gaps: list[tuple[str, int, int]] = []
    for placement in places:
        held = {v.buffer for v in program.inputs if v.buffer is not None and v.buffer.placement == placement}
        at, arena = 0, program.arenas.get(placement)
        for buffer in sorted(held, key=lambda b: b.offset or 0):
            gaps.append((placement, at, (buffer.offset or 0) - at))
            at = max(at, (buffer.offset or 0) + buffer.nbytes)
        gaps.append((placement, at, (0 if arena is None else arena.nbytes) - at))
    return gaps


def _emptying(places: Mapping[str, BufferTable], buffer: Buffer) -> Step | None:
    return _filling(places, buffer.placement, buffer.offset or 0, -(-buffer.nbytes // UNIT) * UNIT)


def _filling(places: Mapping[str, BufferTable], placement: str, offset: int, nbytes: int) -> Step | None:
    if placement not in places or nbytes <= 0:
        return None
    return _then(lambda: places[placement].fill(offset, nbytes, NAN))


def _then(call: Callable[[], None]) -> Step:
    return call
