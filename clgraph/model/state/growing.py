"""Inputs of a model that have a place for every token there is, and what is computed of lengths alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable

from clgraph.core.frozen import frozen
from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.model.state.pairs import CacheLayout
from clgraph.model.state.presents import PRESENT


@frozen
class Growing:
    """Names of inputs that have a place for every token.

    Attributes:
        names: All of them; ``loose``, those whose declared sizes do not say so.
    """

    names: frozenset[str]
    loose: frozenset[str]


def growing_inputs(topology: Topology, caches: CacheLayout, needed: set[str], read: set[str]) -> Growing:
    """Return the inputs that have a place for every token: by the name of that size, or because of who reads them.

    Those are read, through any layers, by what is told of lengths or added to scores alone; or they are masks
    ``[batch, N]`` with a name of their own for N that are added to scores, and that places are counted by, too.

    Args:
        needed: Values that are needed for something else, or follow from inputs that are.
        read: Values that tell of lengths, or are added to scores.
    """
    pasts = {c.input for c in caches.caches}
    declared = [topology.declared[c.output].shape for c in caches.caches if c.output in topology.declared]
    totals = {shape[2] for shape in declared if shape is not None and len(shape) == 4} - {None}
    named = {n for n, s in topology.inputs.items() if s.shape and totals & {d for d in s.shape if isinstance(d, str)}}
    free = [name for name in topology.inputs if name not in pasts and not name.startswith(PRESENT)]
    own = {name for name in free if name in named or name not in needed}
    loose = _masks(topology, caches, read) - own
    return Growing(frozenset(own | loose), frozenset(loose))


def _masks(topology: Topology, caches: CacheLayout, read: set[str]) -> set[str]:
    """Return the inputs ``[batch, N]`` of numbers that are *read*, and whose N is no other input's.

    The name of the batch may be no other input's as well: of a mask that is gathered from, exporters do not know.
    """
    inputs = topology.inputs
    batch = (inputs[caches.caches[0].input].shape or (None,))[0]
    read = set(read)
    for layer in reversed(topology.layers):
        if read & set(layer.outputs) and not layer.primitive.shapes_only:
            read |= set(layer.inputs)
    sizes = Counter(d for s in inputs.values() for d in set(s.shape or ()) if isinstance(d, str))
    pairs = {name: s.shape for name, s in inputs.items() if s.shape is not None and len(s.shape) == 2}
    return {
        name
        for name, (texts, size) in pairs.items()
        if name in read and isinstance(size, str) and sizes[size] == 1 and size not in (texts, batch)
        if texts == batch or (isinstance(texts, str) and sizes[texts] == 1)
    }


def of_lengths(
    topology: Topology, growing: Iterable[str], caches: CacheLayout, attentions: Collection[str]
) -> tuple[set[str], set[str]]:
    """Return the values that are computed of lengths, and the values that are made without the elements of inputs.

    The latter hold the former, constants and what is computed of shapes: of inputs, and of what is in front of the
    *attentions*, layers by their names.
    """
    pasts = {c.input for c in caches.caches}
    told = {*growing, *(name for name in topology.inputs if name.startswith(PRESENT))}
    computed, pure, near = set(told), {*topology.constants, *told}, {*topology.inputs, *topology.constants}
    for layer in topology.layers:
        if layer.name in attentions:
            continue
        if not layer.primitive.data_dependent and near.issuperset(layer.inputs):
            near |= set(layer.outputs)
        if _is_table(topology, layer, computed, {*growing, *pasts}):
            computed |= set(layer.outputs)
            continue
        of_shapes = layer.primitive.shapes_only and near.issuperset(layer.inputs)
        if of_shapes or all(name in pure for name in layer.inputs):
            pure |= set(layer.outputs)
            if any(name in computed or name in pasts for name in layer.inputs):
                computed |= set(layer.outputs)
    return computed, pure


def _is_table(topology: Topology, layer: Layer, computed: Container[str], told: Container[str]) -> bool:
    """Whether *layer* gathers rows of what is *computed* of lengths, which grows, at places that are an input."""
    if layer.primitive.kind != "gather" or getattr(layer.primitive, "axis", None) != 0:
        return False
    table, places = layer.inputs
    return table in computed and places in topology.inputs and places not in told
