"""Presents that are cut to the latest tokens, as Transformers' caches of sliding layers are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clgraph.graph.attributes import ints
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.ops.slice import Slice

_TOKENS = (2, -2)
"""The axis of tokens in ``[batch, heads, tokens, D]``."""

_EVERY = (1 << 31) - 1
"""An end behind all tokens."""


def uncut(topology: Topology) -> tuple[Topology, dict[str, int]]:
    """Return *topology* with presents that hold all tokens, and of those that are cut how many of the latest they have.

    The latter by the names of outputs.
    """
    results = {value for _, value in topology.outputs}
    read = {name for layer in topology.layers for name in layer.inputs}
    joined = {
        layer.outputs[0]
        for layer in topology.layers
        if layer.primitive.kind == "concat" and layer.inputs[0] in topology.inputs
    }
    whole, counts = dict[str, str](), dict[str, int]()
    names = {value: name for name, value in topology.outputs}
    for layer in topology.layers:
        if layer.primitive.kind != "slice" or layer.inputs[0] not in joined - results:
            continue
        count = _latest(layer, topology.constants)
        if count and layer.outputs[0] in results - read and layer.inputs[0] not in whole.values():
            whole[layer.outputs[0]] = layer.inputs[0]
            counts[names[layer.outputs[0]]] = count
    if not whole:
        return topology, {}
    layers = [layer for layer in topology.layers if not whole.keys() & set(layer.outputs)]
    outputs = [(name, whole.get(value, value)) for name, value in topology.outputs]
    return replace(topology, layers=layers, outputs=outputs), counts


def _latest(layer: Layer, constants: Mapping[str, Array]) -> int:
    """Return how many of the latest tokens *layer* takes; 0 where it takes others, or along another axis."""
    primitive = layer.primitive
    assert isinstance(primitive, Slice)
    found = dict(zip(primitive.reads, layer.inputs[1:], strict=True))
    if not constants.keys() >= set(found.values()):
        return 0
    given = {name: ints(constants[value]) for name, value in found.items()}
    starts, ends = given.get("starts", primitive.starts), given.get("ends", primitive.ends)
    axes, steps = given.get("axes", primitive.axes), given.get("steps", primitive.steps) or (1,)
    if not len(starts) == len(ends) == len(steps) == 1 or not axes or axes[0] not in _TOKENS or steps[0] != 1:
        return 0
    return -starts[0] if starts[0] < 0 and ends[0] >= _EVERY else 0
