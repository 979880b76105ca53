"""Layers that make the same of the same: exporters write the arithmetic of masks and shapes once for every layer."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.topology import Topology

_FEW = 64
"""Elements of constants that are compared."""


def merged(topology: Topology) -> Topology:
    """Return *topology* with one layer for all that apply equal primitives to the same values; outputs are kept."""
    outputs = {value for _, value in topology.outputs}
    names: dict[str, str] = {}
    constants: dict[Hashable, str] = {}
    for name, array in topology.constants.items():
        if array.size <= _FEW:
            names[name] = constants.setdefault(_content(array), name)
    layers: list[Layer] = []
    found: dict[tuple[Primitive, tuple[str, ...]], Layer] = {}
    for layer in topology.layers:
        layer = replace(layer, inputs=tuple(names.get(name, name) for name in layer.inputs))  # as its sources are known
        first = found.setdefault((layer.primitive, layer.inputs), layer)
        if first is layer or len(first.outputs) != len(layer.outputs) or outputs & set(layer.outputs):
            layers.append(layer)
        else:
            names |= dict(zip(layer.outputs, first.outputs, strict=True))
    return topology if len(layers) == len(topology.layers) else replace(topology, layers=layers)


def _content(array: Array) -> Hashable:
    return array.dtype.str, array.shape, array.tobytes()
