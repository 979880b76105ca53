"""The two topologies of a cut one: attentions over caches for the device, arithmetic of lengths for the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.composite import Composite
from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.model.state.cut_topology import LENGTHS, PLACES, STATE, Bias
from clgraph.model.state.keeping import NoStateError, fed_past, slots
from clgraph.model.state.pairs import CacheLayout
from clgraph.ops.keeps_keys import PAST, KeepsKeys


@frozen
class Read:
    """What the device reads: inputs of the model that are *kept*, values of the host, and biases by their values."""

    kept: tuple[str, ...]
    crossing: tuple[str, ...]
    biases: Mapping[str, Bias]


def device(
    topology: Topology,
    layers: Sequence[Layer],
    attentions: Sequence[Layer],
    caches: CacheLayout,
    read: Read,
    *,
    plain: bool,
) -> Topology:
    """Return *layers* with the *attentions* over caches, of which *plain* ones read no bias."""
    made = Topology(op_types=topology.op_types, label="state")
    pasts = {c.input: c for c in caches.caches}
    for name in read.kept:
        s = topology.inputs[name]
        made.input(name, s.shape, s.host_type or s.dtype)
    for name in read.crossing:
        made.input(name, None, None)
    made.input(LENGTHS, (None,), np.int32)
    if any("places" in _over(x, 0, 0, plain=plain)[1] and "places" not in dict(slots(x)) for x in attentions):
        made.input(PLACES, (None, None), np.int64)
    made.input(STATE, (1,), caches.dtype)
    for bias in () if plain else read.biases.values():
        made.input(bias.input, None, np.float32)
    for name, array in topology.constants.items():
        made.constant(name, array)
    for layer in layers:
        primitive, inputs, outputs = layer.primitive, layer.inputs, layer.outputs
        if layer in attentions:
            key, value = (pasts[fed_past(topology, layer)[name]] for name in PAST)
            primitive, names = _over(layer, key.at, value.at, plain=plain)
            given = dict(slots(layer)) | {"lengths": LENGTHS, "state": STATE}
            if "bias" in given:
                given["bias"] = read.biases[given["bias"]].input
            given.setdefault("places", PLACES)
            inputs, outputs = tuple(given[n] for n in names), layer.outputs[:1]
        origin, annotation = layer.origin, layer.annotation
        made.add(layer.name, primitive, *inputs, outputs=outputs, origin=origin, annotation=annotation)
    presents = {c.output for c in caches.caches}
    for name, value_name in topology.outputs:
        if name not in presents:
            made.output(name, value_name)
    return made


def host(topology: Topology, wanted: Sequence[str]) -> Topology:
    """Return the layers that make the values *wanted*."""
    needed, layers = set(wanted), list[Layer]()
    for layer in reversed(topology.layers):
        if needed & set(layer.outputs):
            layers.insert(0, layer)
            needed |= set(layer.inputs)
    made = Topology(label="lengths")
    for name, s in topology.inputs.items():
        if name in needed:
            made.input(name, s.shape, s.host_type or s.dtype)
    for name, array in topology.constants.items():
        if name in needed:
            made.constant(name, array)
    for x in layers:
        made.add(x.name, x.primitive, *x.inputs, outputs=x.outputs, origin=x.origin)
    for name in wanted:
        made.output(name)
    return made


def _over(layer: Layer, keys_at: int, values_at: int, *, plain: bool) -> tuple[Composite, Sequence[str]]:
    assert isinstance(layer.primitive, KeepsKeys)
    found = layer.primitive.over_caches(keys_at, values_at, plain=plain)
    if found is None:
        raise NoStateError(f"attention {layer.name!r} ({layer.primitive}) does not run over caches")
    return found
