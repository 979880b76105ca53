"""Shapes that are asked for of values that grow or need attention, and that others have as well."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace

from clgraph.core.layout import Shape
from clgraph.graph.topology import Topology
from clgraph.ops.keeps_keys import KeepsKeys
from clgraph.ops.shape import ShapeOf

_Shapes = tuple[Shape, ...]


def with_near_shapes(topology: Topology, shapes: Callable[[str], _Shapes], attentions: Container[str] = ()) -> Topology:
    """Return *topology* with the shapes of values that need no attention asked for in place of equal ones behind.

    Masks that a layer cuts to its own queries are then arithmetic of lengths alone.

    Args:
        shapes: The shapes of a value in several examples; nothing where it has none.
        attentions: Layers that are taken for such beside those that are, by their names.
    """
    first, behind = dict[_Shapes, str](), set[str]()
    for name in topology.inputs:
        first.setdefault(shapes(name), name)
    layers = []
    for layer in topology.layers:
        if layer.primitive.shapes_only and not behind.isdisjoint(layer.inputs):
            names = tuple(first.get(shapes(x), x) if x in behind and shapes(x) else x for x in layer.inputs)
            layer = replace(layer, inputs=names)  # asks for these
        elif isinstance(layer.primitive, KeepsKeys) or layer.name in attentions or not behind.isdisjoint(layer.inputs):
            behind |= set(layer.outputs)
        else:
            for name in layer.outputs:
                first.setdefault(shapes(name), name)
        layers.append(layer)
    return replace(topology, layers=layers)


def with_one_batch(topology: Topology) -> Topology:
    """Return *topology* with the number of texts asked for of the first input that has it by its name.

    Exporters ask for that of a mask, which then seems to be read for more than the lengths that it tells.
    """
    first: dict[str, str] = {}
    for name, signature in topology.inputs.items():
        if signature.shape and isinstance(signature.shape[0], str):
            first.setdefault(signature.shape[0], name)
    layers = []
    for layer in topology.layers:
        asked = topology.inputs.get(layer.inputs[0]) if layer.primitive == ShapeOf(0, 1) else None
        if asked is not None and asked.shape:
            layer = replace(layer, inputs=(first.get(str(asked.shape[0]), asked.name),))  # of the same texts
        layers.append(layer)
    if all(made is layer for made, layer in zip(layers, topology.layers, strict=True)):
        return topology
    return replace(topology, layers=layers)
