"""What comparing a run with the references found: errors of nodes and outputs, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from clgraph.core.frozen import frozen

_SINGLE = 0.1
"""The part of the tolerance that one node may use."""


@frozen
class NodeError:
    """How far the results of one node are off, relative to the largest value of each.

    Attributes:
        implementation: What ran it, ``in_place`` for nothing.
        own: Against its reference on what the device gave it to read: its own fault.
        total: Against the references of everything up to it.
        overwritten: Inputs that are not any more what their producer wrote: the memory plan's fault.
    """

    node: str
    kind: str
    implementation: str
    own: float
    total: float
    overwritten: tuple[str, ...] = ()

    def differs(self, tolerance: float) -> bool:
        """Whether the node computes a wrong result, or an input of it was overwritten before it was read."""
        return bool(self.overwritten) or not self.own <= tolerance * _SINGLE


@frozen
class OutputError:
    """How far one output is off, relative to its largest value.

    Attributes:
        device: The result of a plain run against the expected one.
        passes: The references of the compiled program against those of the program before the first pass.
        together: The result of a plain run against that of the run node by node.
        sliced: The result of a run that computes the batch in slices against that of one that does not.
    """

    name: str
    device: float
    passes: float
    together: float = 0.0
    sliced: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """A run on the device beside the references.

    Attributes:
        against: What the outputs were expected from.
        nodes: In order of execution.
        notes: Options and annotations that did nothing.
    """

    tolerance: float
    against: str
    nodes: tuple[NodeError, ...]
    outputs: tuple[OutputError, ...]
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> NodeError | None:
        """The first node that is wrong by itself; ``None`` when every node does what its reference does."""
        return next((n for n in self.nodes if n.differs(self.tolerance)), None)

    @property
    def changed(self) -> bool:
        """Whether the passes changed what the model computes: the references differ before and after them."""
        return any(not o.passes <= self.tolerance for o in self.outputs)

    @property
    def torn(self) -> bool:
        """Whether a normal run differs from a run node by node, which is a fault of the executor."""
        return any(not o.together <= self.tolerance * _SINGLE for o in self.outputs)

    @property
    def mixed(self) -> bool:
        """Whether the results of the batch slices differ from those of the whole batch."""
        return any(not o.sliced <= self.tolerance for o in self.outputs)

    @property
    def agrees(self) -> bool:
        """Whether every output is as expected and no node is wrong."""
        wrong = self.first is not None or self.changed or self.torn or self.mixed
        return not wrong and all(o.device <= self.tolerance for o in self.outputs)

    def verdict(self) -> str:
        """Return what was found, in a sentence or two."""
        found = []
        if self.changed:
            worst = max(self.outputs, key=lambda o: o.passes)
            found.append(f"the passes change output {worst.name!r} by {worst.passes:.2g} of its scale")
        if (node := self.first) is not None and node.overwritten:
            found.append(f"{', '.join(node.overwritten)} is overwritten before node {node.node!r} reads it")
        elif node is not None:
            found.append(
                f"the first node that differs is {node.node!r}: {node.implementation} is off by {node.own:.2g} of the "
                "result's scale"
            )
        if self.torn:
            worst = max(self.outputs, key=lambda o: o.together)
            found.append(
                f"a plain run gives another output {worst.name!r} than the nodes one by one, by {worst.together:.2g} "
                "of its scale: the executor is wrong"
            )
        if self.mixed:
            worst = max(self.outputs, key=lambda o: o.sliced)
            found.append(
                f"output {worst.name!r} of the batch in slices is off by {worst.sliced:.2g} of its scale from that of "
                "the whole batch"
            )
        if not found and not self.agrees:
            worst = max(self.outputs, key=lambda o: o.device)
            found.append(
                f"output {worst.name!r} is off by {worst.device:.2g} of its scale, though no node alone by more than "
                f"{self.tolerance * _SINGLE:g}: rounding adds up, or {self.against} computes something else"
            )
        return "; ".join(found) or f"device and {self.against} agree within {self.tolerance:g} of each output's scale"
