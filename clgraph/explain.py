"""What was decided about every node of a program and why, as values, text and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from clgraph.errors import OptionError
from clgraph.graph.program import Node, Program, Value
from clgraph.selector.choose import Choice
from clgraph.selector.plan import Launch


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The decisions about one node.

    Attributes:
        primitive: Operator and attributes; ``fused`` the operations inside it, in order.
        origin: The ONNX nodes it stems from; ``annotation`` the layering hint they carried.
        inputs, outputs: (name, layout) pairs; a layout prints as type, memory format, shape and halo.
        implementation: What runs it, and ``because``: why that one.
        estimate: Seconds the choice was made by, not a measurement.
        refusals: Why each other implementation cannot; ``slower``: the estimates of those that can.
        steps: Kernels and tile functions, in order.
    """

    name: str
    primitive: str
    fused: tuple[str, ...]
    origin: tuple[str, ...]
    annotation: str | None
    placement: str | None
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    implementation: str | None = None
    because: str | None = None
    estimate: float | None = None
    refusals: Mapping[str, str] = field(default_factory=dict)
    slower: Mapping[str, float] = field(default_factory=dict)
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a paragraph."""
        lines = [f"{self.name}: {self.primitive}" + "".join(f" + {f}" for f in self.fused)]
        lines.append(f"  from        {', '.join(self.origin)}")
        if self.annotation is not None:
            lines.append(f"  annotation  {self.annotation}")
        lines.append(f"  placement   {self.placement or 'none yet'}")
        lines += [f"  input       {name} {layout}" for name, layout in self.inputs]
        lines += [f"  output      {name} {layout}" for name, layout in self.outputs]
        if self.implementation is not None:
            lines.append(f"  chosen      {self.implementation} ({self.because}, estimate {_micro(self.estimate)})")
        lines += [f"  step        {step}" for step in self.steps]
        lines += [f"  slower      {name} (estimate {_micro(cost)})" for name, cost in sorted(self.slower.items())]
        lines += [f"  refused     {name}: {reason}" for name, reason in sorted(self.refusals.items())]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A compiled program, node by node, and the notes its passes left."""

    nodes: tuple[NodeReport, ...]
    notes: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> NodeReport:
        """Return the node called *name*, or the one that the ONNX node of that name has become.

        Raises:
            OptionError: There is none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        for node in self.nodes:
            if name in node.origin:
                return node
        raise OptionError(f"no node is called {name!r} or stems from one of that name")

    def to_json(self) -> str:
        """Return everything as a JSON text."""
        return json.dumps({"nodes": [asdict(n) for n in self.nodes], "notes": dict(self.notes)}, indent=1)

    def __str__(self) -> str:
        notes = [f"{name}: {text}" for name, text in self.notes.items()]
        return "\n".join([*map(str, self.nodes), *notes])


def explain(program: Program) -> Explanation:
    """Return the report of a program at any stage."""
    return Explanation(tuple(map(_report, program)), dict(program.notes))


def _report(node: Node) -> NodeReport:
    report = {
        "name": node.name,
        "primitive": str(node.primitive),
        "fused": tuple(str(f.primitive) for f in node.fused),
        "origin": node.origin,
        "annotation": node.annotation or node.partitioned_by,
        "placement": node.placement,
        "inputs": tuple(map(_value, node.inputs)),
        "outputs": tuple(map(_value, node.outputs)),
    }
    choice = node.choice
    if not isinstance(choice, Choice):
        return NodeReport(**report)  # type: ignore[arg-type]  # the keys are the fields
    steps = tuple(s.entry if isinstance(s, Launch) else s.function for s in choice.plan().steps)
    return NodeReport(
        **report,  # type: ignore[arg-type]  # the keys are the fields
        implementation=choice.implementation.name,
        because=choice.because,
        estimate=choice.seconds,
        refusals=dict(choice.refusals),
        slower=dict(choice.slower),
        steps=steps,
    )


def _value(value: Value) -> tuple[str, str]:
    return value.name, str(value.layout) + (" constant" if value.constant is not None else "")


def _micro(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1e6:.1f} us"
