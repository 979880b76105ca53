"""Layers around joined keys and values that make nothing else of them, as some exporters write them."""

from __future__ import annotations

from dataclasses import replace

from clgraph.core.dtype import DType
from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.ops.reorder import Reorder


def uncast(topology: Topology) -> Topology:
    """Return *topology* without conversions of what is joined to the type that it has, and without joins of one value.

    Models that compute scores in float32 whatever their type is are exported so (GPT-J): the present is converted. A
    trace joins an empty cache with the past.
    """
    layers, same, types = list[Layer](), dict[str, str](), dict[str, DType | None]()
    for layer in topology.layers:
        inputs = tuple(same.get(name, name) for name in layer.inputs)
        dtype = types.get(inputs[0]) if inputs else None
        joins = layer.primitive.kind == "concat"
        if (joins and len(inputs) == 1) or (dtype and layer.primitive == Reorder(dtype)):
            same[layer.outputs[0]] = inputs[0]
            continue
        if joins and inputs[0] in topology.inputs:
            types[layer.outputs[0]] = topology.inputs[inputs[0]].dtype
        layers.append(replace(layer, inputs=inputs))  # as what it reads is known
    if not same:
        return topology
    outputs = [(name, same.get(value, value)) for name, value in topology.outputs]
    return replace(topology, layers=layers, outputs=outputs)
