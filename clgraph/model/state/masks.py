"""Masks of padding that ONNX Runtime's attentions read: made biases of the scores, which caches know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.ops.keeps_keys import PAST
from clgraph.ops.microsoft.attention import CrossAttention
from clgraph.ops.microsoft.attention_parts import PaddingBias
from clgraph.ops.microsoft.self_attention import SelfAttention


def with_biases(topology: Topology) -> Topology:
    """Return *topology* with masks ``[batch, keys]`` and ``[batch, tokens, keys]`` of attentions with pasts as biases.

    Lengths in the place of a mask stay: they do not say how many keys there are.
    """
    makers = {name: layer for layer in topology.layers for name in layer.outputs}
    layers = list[Layer]()
    for layer in topology.layers:
        attention = layer.primitive
        if isinstance(attention, CrossAttention | SelfAttention) and {"mask", *PAST} <= set(attention.given):
            given = dict(zip(attention.given, layer.inputs[1:], strict=True))
            past = topology.inputs.get(given["past_key"])
            if past is not None and past.dtype is not None and _rank(topology, makers, given["mask"]) in (2, 3):
                read = tuple(given.pop(name) for name in ("mask", "bias") if name in given)
                bias = f"{layer.name}/mask"
                layers.append(Layer(bias, PaddingBias(attention.masked, past.dtype), read, (bias,), layer.origin))
                given["bias"] = bias
                unmasked = replace(attention, given=tuple(given))
                layer = replace(layer, primitive=unmasked, inputs=(layer.inputs[0], *given.values()))  # reads the bias
        layers.append(layer)
    if len(layers) == len(topology.layers):
        return topology
    return replace(topology, layers=layers)


def _rank(topology: Topology, makers: Mapping[str, Layer], name: str) -> int | None:
    """Return how many axes a value has that is an input of the model, perhaps cast."""
    while (layer := makers.get(name)) is not None and layer.primitive.kind == "reorder":
        name = layer.inputs[0]
    shape = topology.inputs[name].shape if name in topology.inputs else None
    return None if shape is None else len(shape)
