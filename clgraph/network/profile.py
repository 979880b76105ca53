"""Profile of a run: seconds, bytes and arithmetic of every command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from clgraph.core.frozen import frozen
from clgraph.core.notebook import html_table
from clgraph.selector.query import DeviceInfo


@frozen
class NodeTime:
    """One command of a run.

    Attributes:
        what: Kernel, tile function, ``host`` or ``transfer``.
        start, seconds: Begin after the run's, and duration: the device's own time for kernels.
        nbytes, flops: Bytes of the node's inputs and outputs, and its arithmetic.
        route: The placements that a transfer goes from and to.
        estimate: Seconds that the whole node, which may be several commands, was estimated to take, where it was.
        tickets: Pieces of work of a tile step; 0 for everything else.
        idle: Seconds that a worker spent in it without a ticket, on average; known of the persistent executor only.
        subgraph: The part of the program that it was submitted with; empty for what a stage's host does.
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
    tickets: int = 0
    idle: float = 0.0
    route: tuple[str, str] | None = None
    estimate: float | None = None
    subgraph: str = ""

    def roofline(self, device: DeviceInfo) -> float:
        """Return the seconds that the peak rates of *device* allow: the larger of arithmetic and traffic."""
        return max(self.flops / device.flops, self.nbytes / device.bytes_per_second)


FAR_OFF, NOTICED = 10.0, 20e-6
"""How many times off an estimate is a fault, of nodes that take, or were to take, at least so many seconds.

Less is the begin of a launch and the noise of the machine.
"""


def is_far_off(seconds: float, estimate: float) -> bool:
    """Whether a measured time and its estimate differ by ``FAR_OFF`` or more, each at least a tenth of ``NOTICED``."""
    measured, expected = (max(t, NOTICED / FAR_OFF) for t in (seconds, estimate))
    return max(measured, expected) >= FAR_OFF * min(measured, expected)


@frozen
class KindTime:
    """All commands of one kind of operator."""

    kind: str
    commands: tuple[NodeTime, ...]

    @property
    def count(self) -> int:
        """How many."""
        return len(self.commands)

    @property
    def seconds(self) -> float:
        """Their time."""
        return sum(c.seconds for c in self.commands)

    @property
    def flops(self) -> float:
        """Their arithmetic."""
        return sum(c.flops for c in self.commands)

    @property
    def nbytes(self) -> int:
        """Their traffic."""
        return sum(c.nbytes for c in self.commands)

    def roofline(self, device: DeviceInfo) -> float:
        """Return the seconds that the peak rates of *device* allow, command by command."""
        return sum(c.roofline(device) for c in self.commands)


@frozen
class SubgraphUse:
    """A part of the program: how often it was bound for the present shapes, which makes its kernels, and how often run.

    Attributes:
        nodes: How many there are.
    """

    id: str
    placement: str
    nodes: int
    created: int
    runs: int


@frozen
class Profile:
    """The commands of one run in order, and the seconds of the whole run with its copies in and out.

    Launches are waited for one by one, so that the total is larger than that of a plain run. Tile steps that run in one
    launch are timed from inside it.

    Attributes:
        copies: What became of each input and result, by name: used where it lies, or copied and how.
        subgraphs: The parts of the program that are bound and submitted as one.
    """

    commands: tuple[NodeTime, ...]
    total: float
    copies: Mapping[str, str] = field(default_factory=dict)
    subgraphs: tuple[SubgraphUse, ...] = ()

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

    def by_subgraph(self) -> dict[str, float]:
        """Return the seconds of each subgraph, in order of execution."""
        return {s.id: sum(c.seconds for c in self.commands if c.subgraph == s.id) for s in self.subgraphs}

    def far_off(self) -> dict[str, float]:
        """Return measured by estimated seconds of the nodes that :func:`is_far_off`, in order of execution."""
        estimates = {c.node: c.estimate for c in self.commands if c.estimate is not None}
        times = {node: seconds for node, seconds in self.by_node().items() if node in estimates}
        return {n: s / max(estimates[n], 1e-9) for n, s in times.items() if is_far_off(s, estimates[n])}

    def by_kind(self) -> tuple[KindTime, ...]:
        """Return the totals of each kind of operator, the slowest first."""
        found: dict[str, list[NodeTime]] = {}
        for c in self.commands:
            found.setdefault(c.kind, []).append(c)
        return tuple(sorted((KindTime(k, tuple(v)) for k, v in found.items()), key=lambda t: -t.seconds))

    def save_trace(self, path: Path) -> None:
        """Write the run as a Chrome trace, for ``chrome://tracing`` or Perfetto."""
        lanes = {placement: n for n, placement in enumerate(dict.fromkeys(c.placement for c in self.commands))}
        events: list[dict[str, object]] = [
            {"ph": "M", "pid": 0, "tid": n, "name": "thread_name", "args": {"name": placement}}
            for placement, n in lanes.items()
        ]
        far_off = self.far_off()
        for c in self.commands:
            args = {"kernel": c.what, "implementation": c.implementation, "bytes": c.nbytes, "flops": c.flops}
            args |= {"tickets": c.tickets, "idle": c.idle * 1e6, "subgraph": c.subgraph}
            if c.estimate is not None:
                args |= {"estimate": c.estimate * 1e6, "far_off": c.node in far_off}
            time = {"ts": c.start * 1e6, "dur": c.seconds * 1e6}
            events.append(
                {"ph": "X", "pid": 0, "tid": lanes[c.placement], "name": c.node, "cat": c.kind, **time, "args": args}
            )
        path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Profile of {len(self.commands)} commands, {self.seconds * 1e3:.3f} ms>"

    def _repr_html_(self) -> str:
        ranked = sorted(self.commands, key=lambda c: -c.seconds)
        rows = [
            (c.node, c.what, f"{c.seconds * 1e6:.1f}", f"{100 * c.seconds / (self.seconds or 1):.1f}") for c in ranked
        ]
        return html_table(repr(self)[1:-1], ("node", "kernel", "us", "%"), rows)

    def __str__(self) -> str:
        rows = sorted(self.commands, key=lambda c: -c.seconds)
        what = {c: c.what if c.route is None else f"transfer to {c.route[1]}" for c in rows}
        lines = [f"{c.seconds * 1e6:10.1f} us  {what[c]:28} {c.node}" for c in rows]
        lines.append(f"{self.seconds * 1e6:10.1f} us  in all")
        return "\n".join([*lines, *(f"{name}: {how}" for name, how in self.copies.items())])


def sum_of(profiles: Sequence[Profile]) -> Profile:
    """Return the profile of runs of the same commands one after another: each command with its time in all of them."""
    if len(profiles) == 1:
        return profiles[0]
    summed = ("seconds", "nbytes", "flops", "tickets", "idle")
    commands = tuple(
        replace(
            each[0],
            estimate=None if each[0].estimate is None else each[0].estimate * len(each),
            **{name: sum(getattr(c, name) for c in each) for name in summed},
        )
        for each in zip(*(p.commands for p in profiles), strict=True)
    )
    return replace(profiles[-1], commands=commands, total=sum(p.total for p in profiles))
