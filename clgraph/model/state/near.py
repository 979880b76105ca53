"""Shapes that are asked for behind attentions, of values that have those of others in front of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clgraph.core.layout import Shape
from clgraph.graph.topology import Topology
from clgraph.ops.keeps_keys import KeepsKeys

_Shapes = tuple[Shape, ...]


def with_near_shapes(topology: Topology, shapes: Callable[[str], _Shapes]) -> Topology:
    """Return *topology* with the shapes of values that need no attention asked for in place of equal ones behind.

    Masks that a layer cuts to its own queries are then arithmetic of lengths alone.

    Args:
        shapes: The shapes of a value in several examples; nothing where it has none.
    """
    first, behind = dict[_Shapes, str](), set[str]()
    for name in topology.inputs:
        first.setdefault(shapes(name), name)
    layers = []
    for layer in topology.layers:
        if layer.primitive.shapes_only and not behind.isdisjoint(layer.inputs):
            names = tuple(first.get(shapes(x), x) if x in behind and shapes(x) else x for x in layer.inputs)
            layer = replace(layer, inputs=names)  # asks for these
        elif isinstance(layer.primitive, KeepsKeys) or not behind.isdisjoint(layer.inputs):
            behind |= set(layer.outputs)
        else:
            for name in layer.outputs:
                first.setdefault(shapes(name), name)
        layers.append(layer)
    return replace(topology, layers=layers, _made=set(topology._made))
