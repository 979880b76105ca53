"""Where the time of a run goes: seconds, bytes and arithmetic of every command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clgraph.graph.program import Node

_NANO = 1e-9


@dataclass(frozen=True, slots=True)
class NodeTime:
    """One command of a run.

    Attributes:
        what: Kernel, tile function, ``host`` or ``copy``.
        start, seconds: Begin after the run's, and duration: the device's own time for kernels.
        nbytes, flops: Bytes of the node's inputs and outputs, and its arithmetic; 0 for a copy.
    """

    node: str
    origin: tuple[str, ...]
    kind: str
    implementation: str
    what: str
    placement: str
    start: float
    seconds: float
    nbytes: int
    flops: float


@dataclass(frozen=True, slots=True)
class Profile:
    """The commands of one run in order, and the seconds of the whole run with its copies in and out.

    Commands are waited for one by one, so that the total is larger than that of a plain run.
    """

    commands: tuple[NodeTime, ...]
    total: float

    @property
    def seconds(self) -> float:
        """The sum over the commands."""
        return sum(c.seconds for c in self.commands)

    def by_node(self) -> dict[str, float]:
        """Return the seconds of each node, in order of execution."""
        found: dict[str, float] = {}
        for c in self.commands:
            found[c.node] = found.get(c.node, 0.0) + c.seconds
        return found

    def save_trace(self, path: Path) -> None:
        """Write the run as a Chrome trace, for ``chrome://tracing`` or Perfetto."""
        lanes = {placement: n for n, placement in enumerate(dict.fromkeys(c.placement for c in self.commands))}
        events: list[dict[str, object]] = [
            {"ph": "M", "pid": 0, "tid": n, "name": "thread_name", "args": {"name": placement}}
            for placement, n in lanes.items()
        ]
        for c in self.commands:
            args = {"kernel": c.what, "implementation": c.implementation, "bytes": c.nbytes, "flops": c.flops}
            time = {"ts": c.start * 1e6, "dur": c.seconds * 1e6}
            events.append(
                {"ph": "X", "pid": 0, "tid": lanes[c.placement], "name": c.node, "cat": c.kind, **time, "args": args}
            )
        path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), encoding="utf-8")

    def __str__(self) -> str:
        rows = sorted(self.commands, key=lambda c: -c.seconds)
        lines = [f"{c.seconds * 1e6:10.1f} us  {c.what:28} {c.node}" for c in rows]
        return "\n".join([*lines, f"{self.seconds * 1e6:10.1f} us  in all"])


def node_time(node: Node, what: str, placement: str, start: float, seconds: float) -> NodeTime:
    """Return the record of one command of *node*."""
    layouts = [v.layout for v in (*node.inputs, *node.outputs)]
    own = [v.layout for v in node.inputs[: node.arity]]
    copy = what == "copy"
    return NodeTime(
        node.name,
        node.origin,
        node.primitive.kind,
        "copy" if copy else getattr(getattr(node.choice, "implementation", None), "name", "host.reference"),
        what,
        placement,
        start,
        seconds,
        0 if copy else sum(x.nbytes for x in layouts),
        0.0 if copy else node.primitive.flops(own, [v.layout for v in node.outputs]),
    )


def device_seconds(times: Sequence[int]) -> tuple[float, float]:
    """Return the wait before the start and the duration, from (queued, start, end) in nanoseconds."""
    queued, start, end = times
    return (start - queued) * _NANO, (end - start) * _NANO
