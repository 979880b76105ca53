"""Models that declare a batch of one entry, for batches of any size: their inputs, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.errors import ClgraphError
from clgraph.graph.attributes import ints
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Dimension
from clgraph.graph.topology import Topology


def open_batch(topology: Topology) -> dict[str, tuple[Dimension, ...]]:
    """Return the shapes of inputs that declare a batch of one entry, with an open one in its place."""
    return {n: ("batch", *s.shape[1:]) for n, s in topology.inputs.items() if s.shape and s.shape[0] == 1}


def with_batches(topology: Topology, shapes: Mapping[str, Sequence[Dimension]]) -> Topology:
    """Return *topology* with inputs of *shapes*, and with open sizes where a batch of one becomes another.

    Raises:
        InputError: As ``Topology.with_shapes``.
    """
    other = topology.with_shapes(shapes, anew=True)
    changes = any(tuple(shapes[name])[:1] != (1,) for name in open_batch(topology).keys() & shapes.keys())
    return other if not changes else with_open_sizes(topology).with_shapes(shapes, anew=True)


def with_open_sizes(topology: Topology) -> Topology:
    """Return *topology* with sizes left to be computed that tools have worked out for the batch of one it declares.

    They write it into what Reshape and Resize are given: ``[1, -1]`` for the rows of an entry, ``[1, 64, 40, 40]``.
    For one entry nothing changes; whether entries of a larger batch stay apart is another question
    (:func:`~clgraph.throughput.batchable.joinable`).
    """
    if not open_batch(topology):
        return topology
    firsts, layers, constants = _first_sizes(topology), list[Layer](), dict(topology.constants)
    for layer in topology.layers:
        opened = _opened(layer, firsts.get(layer.name), constants)
        layers.append(layer if opened is None else opened)
    return replace(topology, layers=layers, constants=constants)


def _first_sizes(topology: Topology) -> dict[str, int]:
    """Return the first size of what each node reads, where all sizes are known."""
    if not all(signature.is_fixed for signature in topology.inputs.values()):
        return {}
    try:
        program = topology.build()
    except ClgraphError:  # said when it is compiled
        return {}
    return {node.name: node.inputs[0].layout.shape[0] for node in program if node.inputs and node.inputs[0].layout.rank}


def _opened(layer: Layer, first: int | None, constants: dict[str, Array]) -> Layer | None:
    """Return *layer* with its first size left to be computed, of a constant of its own; ``None`` where it stays.

    Args:
        first: The first size of what it reads, where that is known.
    """
    primitive: Any = layer.primitive
    if primitive.kind == "reshape":
        if not primitive.reads:
            sizes = _opened_shape(primitive.shape, first, zero_is_zero=primitive.zero_is_zero)
            return None if sizes is None else replace(layer, primitive=replace(primitive, shape=sizes))
        if (known := constants.get(layer.inputs[1])) is None:
            return None
        sizes = _opened_shape(ints(known), first, zero_is_zero=primitive.zero_is_zero)
        return None if sizes is None else _with_constant(layer, 1, sizes, constants)
    if primitive.kind == "resize" and primitive.reads == ("sizes",) and primitive.axes is None:
        known = constants.get(layer.inputs[1])
        if known is None or primitive.policy != "stretch" or (first, *ints(known)[:1]) != (1, 1):
            return None
        others = replace(primitive, axes=tuple(range(1, known.size)))
        return _with_constant(replace(layer, primitive=others), 1, ints(known)[1:], constants)
    return None


def _opened_shape(sizes: tuple[int, ...], first: int | None, *, zero_is_zero: bool) -> tuple[int, ...] | None:
    """Return what Reshape is given with the first size left open; ``None`` where it is, or nothing tells how."""
    if not sizes or sizes[0] < 1:
        return None
    if all(size > 0 for size in sizes[1:]):
        return (-1, *sizes[1:])
    return (0, *sizes[1:]) if sizes[0] == first == 1 and not zero_is_zero else None


def _with_constant(layer: Layer, slot: int, values: Sequence[int], constants: dict[str, Array]) -> Layer:
    name = f"{layer.inputs[slot]}/{layer.name}/opened"
    constants[name] = np.array(values, np.int64)
    return replace(layer, inputs=(*layer.inputs[:slot], name, *layer.inputs[slot + 1 :]))
