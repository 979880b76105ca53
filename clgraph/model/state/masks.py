"""Masks of padding that ONNX Runtime's attentions read: made biases of the scores, which caches know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clgraph.graph.topology import Layer, Topology
from clgraph.ops.keeps_keys import PAST
from clgraph.ops.microsoft.attention import CrossAttention
from clgraph.ops.microsoft.attention_parts import PaddingBias


def added(topology: Topology) -> Topology:
    """Return *topology* with masks ``[batch, keys]`` and ``[batch, tokens, keys]`` of attentions with pasts as biases.

    Lengths in their place stay: how many keys there are says another input.
    """
    makers = {name: layer for layer in topology.layers for name in layer.outputs}
    made = replace(topology, layers=[], _made=set(topology._made))
    for layer in topology.layers:
        attention = layer.primitive
        if isinstance(attention, CrossAttention) and {"mask", *PAST} <= set(attention.given):
            given = dict(zip(attention.given, layer.inputs[1:], strict=True))
            if _rank(topology, makers, given["mask"]) in (2, 3):
                read = tuple(given.pop(name) for name in ("mask", "bias") if name in given)
                dtype = topology.inputs[given["past_key"]].dtype if given["past_key"] in topology.inputs else None
                if dtype is not None:
                    name = f"{layer.name}/mask"
                    made.layers.append(Layer(name, PaddingBias(attention.masked, dtype), read, (name,), layer.origin))
                    given["bias"] = name
                    layer = replace(  # the same, with a bias of the scores
                        layer, primitive=replace(attention, given=tuple(given)), inputs=(layer.inputs[0], *given.values())
                    )
        made.layers.append(layer)
    made._made |= {name for layer in made.layers for name in layer.outputs}
    return made


def _rank(topology: Topology, makers: Mapping[str, Layer], name: str) -> int | None:
    """Return how many axes a value has that is an input of the model, perhaps cast."""
    while (layer := makers.get(name)) is not None and layer.primitive.kind == "reorder":
        name = layer.inputs[0]
    shape = topology.inputs[name].shape if name in topology.inputs else None
    return None if shape is None else len(shape)
