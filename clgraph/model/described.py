"""The description of a model that needs no compilation: inputs, outputs, metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clgraph.graph.about import About
    from clgraph.graph.signature import Dimension, Signature
    from clgraph.graph.topology import Topology


class Described:
    """Base of models: inputs, outputs and metadata, taken from the topology.

    Attributes:
        topology: What was compiled.
    """

    topology: Topology

    @property
    def inputs(self) -> tuple[Signature, ...]:
        """Name, element type and shape of every input; a dimension may be a name or ``None``.

        The key of a run that random numbers come from is not among them: a run makes one, unless it is fed.
        """
        return tuple(self.topology.fed.values())

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""
        return tuple(s.name for s in self.inputs)

    @property
    def input_types(self) -> dict[str, str | None]:
        """The type of each input as ONNX spells it, as ``tensor(float)``; ``None`` where it is not declared."""
        return {s.name: s.type for s in self.inputs}

    @property
    def input_shapes(self) -> dict[str, tuple[Dimension, ...] | None]:
        """The shape of each input; a dimension may be a name or ``None``."""
        return {s.name: s.shape for s in self.inputs}

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs, in order."""
        return tuple(name for name, _ in self.topology.outputs)

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata properties of the ONNX file, such as class names."""
        return self.topology.metadata

    @property
    def about(self) -> About:
        """The descriptive fields of the ONNX file: producer, version, domain, names, documentation strings."""
        return self.topology.about

    @property
    def overridable(self) -> tuple[Signature, ...]:
        """Initialisers that are inputs, too: feeding one replaces its value, for which another program is compiled."""
        return tuple(self.topology.overridable.values())

    @property
    def is_static(self) -> bool:
        """Whether every input has one shape only."""
        return all(s.is_fixed for s in self.topology.inputs.values())
