"""Heads and depths of caches that a model does not declare: as its layers make them of the new tokens alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clgraph.core.layout import Shape
from clgraph.errors import ClgraphError, UnknownValueError
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.signature import Dimension, Signature
from clgraph.graph.topology import Topology
from clgraph.model.state.examples import joins
from clgraph.ops.keeps_keys import PAST, KeepsKeys

_TOKENS = 2


def sized(topology: Topology) -> Topology:
    """Return *topology* with the heads and the depth of every past that is an input, where they can be told.

    Some exporters name the last axis of a cache, like those of texts and tokens, though the weights in front of the
    attention decide it.
    """
    pairs = [pair for layer in topology.layers for pair in _pairs(topology, layer)]
    if not any(_is_open(topology.inputs[past]) for past, _ in pairs):
        return topology
    presents = _presents(topology, {past for past, _ in pairs})
    inputs = dict(topology.inputs)
    for past, present in pairs:
        shape, (_, heads, _, depth) = inputs[past].shape or (), presents.get(present, (0,) * 4)
        if len(shape) == 4 and heads:
            inputs[past] = replace(inputs[past], shape=(shape[0], heads, shape[2], depth))
    return replace(topology, inputs=inputs)


def _pairs(topology: Topology, layer: Layer) -> list[tuple[str, str]]:
    """Return the inputs of the model that are past keys and values of *layer*, each with its present."""
    if joins(topology, layer):
        return [(layer.inputs[0], layer.outputs[0])]
    if not isinstance(layer.primitive, KeepsKeys):
        return []
    slots = dict(zip(layer.primitive.slots(), layer.inputs, strict=True))
    pasts = [slots[name] for name in PAST if slots.get(name) in topology.inputs]
    return list(zip(pasts, layer.outputs[1:3], strict=False))


def _is_open(signature: Signature) -> bool:
    shape = signature.shape or ()
    return len(shape) == 4 and not (isinstance(shape[1], int) and isinstance(shape[3], int))


def _presents(topology: Topology, pasts: set[str]) -> Mapping[str, Shape]:
    """Return the shapes of what attentions make without a past, one text of few tokens; nothing where that fails."""
    alone = replace(topology, layers=[_alone(topology, layer) for layer in topology.layers])
    texts = {(s.shape or (1,))[0] for s in topology.inputs.values() if s.shape} - {None}
    shapes = {name: _example(signature, name in pasts, texts) for name, signature in topology.inputs.items()}
    try:
        program = _built(alone, shapes)
    except ClgraphError:
        return {}
    return {value.name: value.layout.shape for value in program.values if value.layout.rank == 4}


def _alone(topology: Topology, layer: Layer) -> Layer:
    if joins(topology, layer):
        return replace(layer, inputs=layer.inputs[1:])
    if not isinstance(layer.primitive, KeepsKeys):
        return layer
    given = zip(layer.primitive.slots(), layer.inputs, strict=True)
    return replace(layer, primitive=layer.primitive.alone(), inputs=tuple(x for slot, x in given if slot not in PAST))


def _example(signature: Signature, is_past: bool, texts: set[Dimension]) -> Shape:
    """Return a shape for an input, *texts* being what the number of texts is called."""
    shape = signature.shape or ()
    of_tokens = (1 if i == 0 or d in texts else _TOKENS for i, d in enumerate(shape))
    sizes = (1, 1, 0, 1) if is_past and len(shape) == 4 else of_tokens
    return tuple(d if isinstance(d, int) else size for d, size in zip(shape, sizes, strict=False))


def _built(topology: Topology, shapes: Mapping[str, Shape]) -> Program:
    """Return the program for *shapes*, with ones where values decide sizes."""
    values: dict[str, Array] = {}
    while True:
        try:
            return topology.build(shapes, values)
        except UnknownValueError as error:
            if not (more := [name for name in error.inputs if name not in values]):
                raise
            for name in more:
                dtype = topology.inputs[name].dtype
                values[name] = np.ones(shapes[name], None if dtype is None else dtype.numpy)
