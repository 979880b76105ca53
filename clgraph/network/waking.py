"""The decision to run a small program in the calling thread, if waking the workers would take longer than they save.

An idle thread takes 30-80 us to wake, an operator on a small tensor less to compute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.passes.chosen import choice_of
from clgraph.runtime.engine import Engine
from clgraph.selector.choose import OF_FAMILY, Choice
from clgraph.selector.plan import Launch, Step, Tile
from clgraph.selector.query import DeviceInfo

WAKING_SECONDS = 7.0e-5
"""What waking the workers of PoCL takes: 50-80 us where one idles, as between requests; 28 us at least between two
cores that are busy. On two cores of a Zen 4 an LSTM of 50 steps, of which 43 us could be shared, took 0.49 ms with the
other core woken, run after run, and takes 0.40 ms without."""


def engine_beside(engine: Engine, program: Program, placement: str) -> Engine:
    """Return *engine* with a queue of its own, for the nodes on *placement*: in the calling thread if that is sooner.

    Raises ``DeviceError`` as :meth:`clgraph.runtime.engine.Engine.beside`.
    """
    return engine.beside(alone=_runs_alone(engine, program, placement))


def engine_of(engine: Engine, program: Program, placement: str) -> Engine:
    """Return the one whose programs :func:`engine_beside` runs the nodes on *placement* with."""
    return engine.alone() if _runs_alone(engine, program, placement) else engine


def _runs_alone(engine: Engine, program: Program, placement: str) -> bool:
    if not engine.calls_alone or program.batch_slices > 1 or engine.on_callers_queue:
        return False
    return is_over_sooner_alone((node for node in program if node.placement == placement), engine.info)


def is_over_sooner_alone(nodes: Iterable[Node], info: DeviceInfo) -> bool:
    """Whether what the workers of *info* would save of *nodes*, by estimate, is less than waking them takes."""
    saved, choices = 0.0, [choice for node in nodes if not (choice := choice_of(node)).in_place]
    # Those that take longest first: of most programs one is enough.
    for choice in sorted(choices, key=attrgetter("seconds"), reverse=True):
        saved += _saved(choice, info)
        if saved > WAKING_SECONDS:
            return False
    return True


def _saved(choice: Choice, info: DeviceInfo) -> float:
    """Return the seconds that the workers save of a node that one thread might compute."""
    steps = choice.plan().steps
    if (sharing := _sharing(steps, info.workers)) == 1:
        return 0.0
    seconds = choice.implementation.estimate(choice.query) if choice.because == OF_FAMILY else choice.seconds
    begins = sum(info.costs.step_seconds if isinstance(step, Tile) else info.launch_seconds for step in steps)
    return max(0.0, seconds - begins) * (sharing - 1)


def _sharing(steps: Sequence[Step], workers: int) -> float:
    """Return how many workers can have a part of the longest of *steps*; on average where one function makes all.

    Chunks of tokens that go through layers take alike, and in the first and the last of them some workers have none.
    """
    parts = [_parts(step, workers) for step in steps]
    functions = {step.function for step in steps if isinstance(step, Tile)}
    alike = len(functions) == 1 and all(isinstance(step, Tile) for step in steps)
    return sum(parts) / len(parts) if alike else max(parts, default=1)


def _parts(step: Step, workers: int) -> int:
    """Return how many workers can have a part of *step*."""
    if isinstance(step, Launch):
        groups = math.prod(step.grid) // math.prod(step.group or (1,))
    else:
        groups = step.tickets if isinstance(step, Tile) else 1
    return max(1, min(workers, groups))
