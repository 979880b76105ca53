"""Conversions of joined keys and values to the type that they have, as some exporters write them."""

from __future__ import annotations

from dataclasses import replace

from clgraph.graph.topology import Topology
from clgraph.ops.reorder import Reorder


def uncast(topology: Topology) -> Topology:
    """Return *topology* without such conversions, whose results are what they convert.

    Models that compute scores in float32 whatever their type is are exported so (GPT-J): the present is converted.
    """
    types = {
        layer.outputs[0]: topology.inputs[layer.inputs[0]].dtype
        for layer in topology.layers
        if layer.primitive.kind == "concat" and layer.inputs[0] in topology.inputs
    }
    same = {
        layer.outputs[0]: layer.inputs[0]
        for layer in topology.layers
        if (dtype := types.get(layer.inputs[0]) if layer.inputs else None) and layer.primitive == Reorder(dtype)
    }
    if not same:
        return topology
    layers = [
        replace(layer, inputs=tuple(same.get(name, name) for name in layer.inputs))
        for layer in topology.layers
        if layer.outputs[0] not in same
    ]
    outputs = [(name, same.get(value, value)) for name, value in topology.outputs]
    return replace(topology, layers=layers, outputs=outputs, _made=set(topology._made))
