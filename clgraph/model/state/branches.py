"""Models whose input selects a branch with or without caches, such as Optimum's ``decoder_model_merged.onnx``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.ops.if_else import IfElse


@frozen
class Branch:
    """The body of an If that has caches, as a topology of its own.

    Attributes:
        condition: The input that chooses, by *value*.
    """

    topology: Topology
    condition: str
    value: bool

    def is_taken(self, feeds: Mapping[str, Array]) -> bool:
        """Whether a run on *feeds* computes it."""
        condition = feeds[self.condition]
        return condition.size == 1 and bool(np.ravel(condition)[0]) == self.value

    def fed(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return those of *feeds* that it reads."""
        return {name: array for name, array in feeds.items() if name in self.topology.inputs}


def branch_with_caches(topology: Topology) -> Branch | None:
    """Return the body with caches of a *topology* that is one If over an input; ``None`` where it is another."""
    if len(topology.layers) != 1 or not isinstance(choice := topology.layers[0].primitive, IfElse):
        return None
    (layer,) = topology.layers
    condition, *captured = layer.inputs
    bodies = [(value, body) for value, body in ((True, choice.then), (False, choice.other)) if body.keeps_keys]
    if condition not in topology.inputs or len(bodies) != 1:
        return None
    ((value, body),) = bodies
    if list(body.inputs) != captured or any(source not in layer.outputs for _, source in topology.outputs):
        return None
    made = dict(zip(layer.outputs, (source for _, source in body.outputs), strict=False))
    read = {name for x in body.layers for name in x.inputs} | set(made.values())
    folded = replace(
        body,
        inputs={name: topology.inputs[name] for name in captured if name in topology.inputs and name in read},
        constants={**body.constants, **{name: a for name, a in topology.constants.items() if name in captured}},
        outputs=[(name, made[source]) for name, source in topology.outputs],
        declared=topology.declared,
    )
    return Branch(folded, condition, value)
