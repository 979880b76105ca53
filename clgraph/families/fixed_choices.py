"""The bodies of Ifs whose conditions all members of a family have, in place of these.

A member binds again whole layers, of which an If may be all of a model: Optimum's merged decoders are one, over an
input. What stands for such an If is the same for all members, so that layers inside are bound one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clgraph.core.layout import Layout
from clgraph.families.schema import Schema
from clgraph.graph.layer import Layer
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology, bind_layer, body_layers
from clgraph.ops.if_else import IfElse


def with_fixed_choices(topology: Topology, schema: Schema, known: Mapping[str, Array]) -> Topology:
    """Return *topology* with the layers that a build for *known* values has in place of such Ifs, called the same."""
    if not any(isinstance(layer.primitive, IfElse) for layer in topology.layers):
        return topology
    free = {given.name for given in schema.values if any(isinstance(e, str) for e in given.elements)}
    constants = {**topology.constants, **{n: a for n, a in known.items() if n not in free}}
    values = {name: Value(name, Layout.of(array), constant=array) for name, array in constants.items()}
    makers = {name: layer for layer in topology.layers for name in layer.outputs}
    renamed: dict[str, str] = {}
    layers, kept = list[Layer](), dict(topology.constants)
    waiting = list(reversed(topology.layers))
    while waiting:
        layer = waiting.pop()
        if not renamed.keys().isdisjoint(layer.inputs):
            layer = replace(layer, inputs=tuple(renamed.get(n, n) for n in layer.inputs))
        if not isinstance(layer.primitive, IfElse) or not _is_fixed(layer.inputs[0], values, makers):
            layers.append(layer)
            continue
        body = layer.primitive.inline([], [values[layer.inputs[0]].constant])
        inside, names = body_layers(layer, body)
        found = {names[name]: array for name, array in body.constants.items()}
        kept |= found
        values |= {name: Value(name, Layout.of(array), constant=array) for name, array in found.items()}
        makers |= {name: each for each in inside for name in each.outputs}
        results = zip(layer.outputs, (names[name] for _, name in body.outputs), strict=False)
        renamed |= {outer: name for outer, name in results if outer != name}
        waiting += reversed(inside)
    outputs = [(name, renamed.get(value, value)) for name, value in topology.outputs]
    return replace(topology.plain(), layers=layers, constants=kept, outputs=outputs)


def _is_fixed(condition: str, values: dict[str, Value], makers: Mapping[str, Layer]) -> bool:
    """Whether constants and fixed inputs alone decide *condition*; what they make on the way goes into *values*."""
    waiting = [condition]
    while waiting:
        name = waiting[-1]
        if name in values:
            waiting.pop()
            continue
        layer = makers.get(name)
        if layer is None or layer.primitive.shapes_only or layer.primitive.data_dependent:
            return False
        if missing := [source for source in layer.inputs if source not in values]:
            waiting += missing
            continue
        made = dict(values)
        bind_layer(layer, made, [])
        if made[name].constant is None:
            return False
        values[name] = made[name]
    return True
