"""What is known about one part of a compiled program: a node, a buffer of it, a subgraph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from clgraph.core.frozen import frozen
from clgraph.graph.subgraph import Subgraph


@frozen
class BufferUse:
    """Where one result of a node lies, or one piece of scratch.

    Attributes:
        offset: Bytes from the start of the arena of ``placement``; ``None`` before memory is planned.
        shared: Other values in the same buffer.
    """

    value: str
    buffer: str
    placement: str
    offset: int | None
    nbytes: int
    shared: tuple[str, ...] = ()

    def __str__(self) -> str:
        at = "no place yet" if self.offset is None else f"@{self.offset} on {self.placement}"
        shared = f", shared with {', '.join(self.shared)}" if self.shared else ""
        return f"{self.value}: {self.nbytes} bytes in {self.buffer} {at}{shared}"


@frozen
class NodeReport:
    """The decisions about one node.

    Attributes:
        primitive: Operator and attributes; ``fused`` the operations inside it, in order.
        origin: The ONNX nodes it stems from; ``annotation`` the layering annotation that they carried.
        inputs, outputs: (name, layout) pairs; a layout prints as type, memory format, shape and halo.
        implementation: What runs it, and ``because``: why that one.
        estimate: Seconds that it should take with the workers that there are; where it was tuned, those measured then.
        chosen_by: Seconds of the whole device, by which it was chosen, so that the number of workers changes no result.
        measured: Seconds in the profile that :meth:`Explanation.with_profile` was given.
        refusals: Why each other implementation cannot; ``slower``: the seconds of those that can, like
            ``chosen_by``.
        steps: Kernels and tile functions, in order.
        buffers: Memory of the results and of scratch.
        subgraph: The part of a planned program on several devices that it is bound and submitted with.
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
    chosen_by: float | None = None
    measured: float | None = None
    refusals: Mapping[str, str] = field(default_factory=dict)
    slower: Mapping[str, float] = field(default_factory=dict)
    steps: tuple[str, ...] = ()
    buffers: tuple[BufferUse, ...] = ()
    subgraph: str | None = None

    def __str__(self) -> str:
        """Return a paragraph."""
        lines = [f"{self.name}: {self.primitive}" + "".join(f" + {f}" for f in self.fused)]
        lines.append(f"  from        {', '.join(self.origin)}")
        if self.annotation is not None:
            lines.append(f"  annotation  {self.annotation}")
        lines.append(f"  placement   {self.placement or 'none yet'}")
        if self.subgraph is not None:
            lines.append(f"  subgraph    {self.subgraph}")
        lines += [f"  input       {name} {layout}" for name, layout in self.inputs]
        lines += [f"  output      {name} {layout}" for name, layout in self.outputs]
        if self.implementation is not None:
            whole = f", with all workers {_micro(self.chosen_by)}" if self.chosen_by != self.estimate else ""
            estimate = f"estimate {_micro(self.estimate)}{whole}"
            lines.append(f"  chosen      {self.implementation} ({self.because}, {estimate})")
        if self.measured is not None:
            lines.append(f"  measured    {_micro(self.measured)}")
        lines += [f"  step        {step}" for step in self.steps]
        lines += [f"  buffer      {buffer}" for buffer in self.buffers]
        of = "estimate" if self.chosen_by == self.estimate else "with all workers"
        lines += [f"  slower      {name} ({of} {_micro(cost)})" for name, cost in sorted(self.slower.items())]
        lines += [f"  refused     {name}: {reason}" for name, reason in sorted(self.refusals.items())]
        return "\n".join(lines)


@frozen
class SubgraphReport:
    """A part of a planned program that is bound and submitted as one.

    Attributes:
        nodes: Names of the nodes, in order.
        inputs, outputs: Names of the values that come from and go to elsewhere, the caller included; no constants.
        attributes: Those of every node, by ``node.attribute``.
    """

    id: str
    placement: str
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]

    @staticmethod
    def of(subgraph: Subgraph) -> SubgraphReport:
        """Return the report of *subgraph*."""
        nodes, inputs, outputs = (
            tuple(x.name for x in found) for found in (subgraph.nodes, subgraph.inputs, subgraph.outputs)
        )
        return SubgraphReport(subgraph.id, subgraph.placement, nodes, inputs, outputs, subgraph.attributes)

    def __str__(self) -> str:
        read, made = (", ".join(names) or "nothing" for names in (self.inputs, self.outputs))
        return f"subgraph {self.id}: {len(self.nodes)} nodes, reads {read}, makes {made}"


def _micro(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1e6:.1f} us"
