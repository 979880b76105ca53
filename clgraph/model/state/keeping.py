"""Attentions that read past keys and values: what is in their slots, and which of it the model is fed."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.errors import ClgraphError
from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.ops.keeps_keys import PAST, KeepsKeys


class NoStateError(ClgraphError):
    """Nothing in the topology is a state; the message says why."""


def slots(layer: Layer) -> Sequence[tuple[str, str]]:
    """Return the inputs of an attention behind the names of its slots."""
    assert isinstance(layer.primitive, KeepsKeys)
    return list(zip(layer.primitive.slots(), layer.inputs, strict=True))


def fed_past(topology: Topology, layer: Layer) -> dict[str, str]:
    """Return the inputs of the model that are the past keys and values of *layer*, by their names in its slots."""
    found = {name: x for name, x in slots(layer) if name in PAST and x in topology.inputs}
    return found if len(found) == len(PAST) and len(layer.outputs) > 2 else {}
