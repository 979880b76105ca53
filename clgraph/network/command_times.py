"""Times of commands: out of the driver's clock, and of steps inside a launch out of the workers'."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.primitive import Array
from clgraph.network.commands import Command
from clgraph.network.profile import NodeTime
from clgraph.ops.transfer import Transfer
from clgraph.selector.choose import Choice

_NANO = 1e-9


@frozen
class StepTime:
    """Seconds of one tile step inside a launch: its begin after the launch's, its duration, the workers' idle time."""

    start: float
    seconds: float
    idle: float
    tickets: int


def step_times(cycles: Array, seconds_a_cycle: float) -> list[StepTime]:
    """Return the times of consecutive steps from what the executor wrote: uint64 [steps, workers, 4].

    A step lasts from the first worker with a ticket to the last that found no more.
    """
    found = []
    begin = int(cycles[0, :, 0].min())
    for came, out, _, ran in cycles.astype(np.int64).transpose(0, 2, 1):
        start, end = int(came[ran > 0].min()), int(out[ran > 0].max())
        idle = (np.clip(came, start, end) - start + end - np.clip(out, start, end)).mean()
        scale = seconds_a_cycle
        found.append(StepTime((start - begin) * scale, (end - start) * scale, float(idle) * scale, int(ran.sum())))
    return found


def node_time(
    command: Command, subgraph: str, start: float, seconds: float, tickets: int = 0, idle: float = 0.0
) -> NodeTime:
    """Return the record of *command*, or of its part of one, in the subgraph of that identity."""
    node = command.node
    route = (node.primitive.source, node.placement or "") if isinstance(node.primitive, Transfer) else None
    layouts = [v.layout for v in (*node.inputs, *node.outputs)]
    own = [v.layout for v in node.inputs[: node.arity]]
    return NodeTime(
        node.name,
        node.origin,
        node.primitive.kind,
        getattr(node.choice, "name", "host.reference"),
        command.what if route is None else "transfer",
        command.placement,
        start,
        seconds,
        sum(x.nbytes for x in layouts),
        node.primitive.flops(own, [v.layout for v in node.outputs]),
        tickets,
        idle,
        route,
        node.choice.expected if isinstance(node.choice, Choice) else None,
        subgraph,
    )


def device_seconds(times: Sequence[int]) -> tuple[float, float]:
    """Return the wait before the start and the duration, from (queued, start, end) in nanoseconds."""
    queued, start, end = times
    return (start - queued) * _NANO, (end - start) * _NANO
