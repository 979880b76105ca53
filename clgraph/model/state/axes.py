"""Axes of inputs that have the size of the batch, or of the new tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.model.state.keeping import NoStateError
from clgraph.model.state.pairs import CacheLayout


def batch_axes(topology: Topology, kept: Iterable[str], caches: CacheLayout) -> dict[str, int]:
    """Return the batch's axis in inputs that do not grow: that of the caches' name for it, else the first of many.

    Inputs of one axis of another name have none.
    """
    batch, found = (topology.inputs[caches.caches[0].input].shape or (None,))[0], dict[str, int]()
    for name in kept:
        shape = topology.inputs[name].shape
        if shape is None:
            raise NoStateError(f"the shape of input {name!r} is not declared")
        if batch is not None and batch in shape:
            found[name] = shape.index(batch)
        elif len(shape) > 1:
            found[name] = 0
    return found


def open_pasts(topology: Topology, kept: Mapping[str, Signature], caches: CacheLayout) -> list[str]:
    """Return the inputs that are as long as the pasts by the name of that size, and are no caches."""
    shapes = [topology.inputs[cache.input].shape or () for cache in caches.caches]
    pasts = {shape[2] for shape in shapes if isinstance(shape[2], str)}
    return [name for name, s in kept.items() if len(s.shape or ()) == 4 and (s.shape or ())[2] in pasts]


def token_axes(
    topology: Topology, kept: Iterable[str], batch: Mapping[str, int], read: Iterable[str]
) -> dict[str, tuple[int, ...]]:
    """Return the axes of the inputs that do not grow, but for the batch's, that have the new tokens' size.

    They are open, and of no other name than those in front of what is *read*, queries and new keys of the first
    attention: behind it, what an encoder made is of another length.
    """
    shapes = {name: topology.inputs[name].shape or () for name in kept}
    near = _in_front(topology, read)
    names = {d for name, shape in shapes.items() if name in near for d in shape}
    return {
        name: tuple(
            i
            for i, d in enumerate(shape)
            if not isinstance(d, int) and i != batch.get(name) and (d is None or d in names or name in near)
        )
        for name, shape in shapes.items()
    }


def _in_front(topology: Topology, read: Iterable[str]) -> set[str]:
    """Return the values that those *read* are made of."""
    needed = set(read)
    for layer in reversed(topology.layers):
        if needed & set(layer.outputs):
            needed |= set(layer.inputs)
    return needed
