"""Presents that are read for their shapes alone, which are known before a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from clgraph.graph.layer import Layer
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.ops.keeps_keys import PAST, KeepsKeys

PRESENT = "clgraph.present:"
"""In front of the name of a past: an input of the shape that its present will have."""

MOVES = frozenset({"reshape", "unsqueeze", "squeeze", "expand", "transpose", "identity", "reorder"})
"""Kinds whose results' shapes tell of that of their first input, and nothing else reads."""


def foretold(topology: Topology, latest: Mapping[str, int]) -> Topology:
    """Return *topology* with inputs in place of the presents that other layers read for their shapes alone.

    Exporters cut the mask of every layer to the length of its keys. Presents of one shape have one input.

    Args:
        latest: Of pasts that are cut, how many of the latest tokens they have at most, by the inputs' names.
    """
    readers: dict[str, list[Layer]] = {}
    for layer in topology.layers:
        for name in layer.inputs:
            readers.setdefault(name, []).append(layer)
    outputs = {value for _, value in topology.outputs}
    inputs, names, shared = dict(topology.inputs), dict[str, str](), dict[object, str]()
    for layer in topology.layers:
        for past, present in _pairs(topology, layer):
            shape = topology.inputs[past].shape
            if shape is None or len(shape) != 4 or not _tells_shapes(present, readers, outputs):
                continue
            name = shared.setdefault((shape[1], shape[3], latest.get(past)), f"{PRESENT}{past}")
            inputs[name] = Signature(name, topology.inputs[past].dtype, (shape[0], shape[1], None, shape[3]))
            names[present] = name
    if not names:
        return topology
    layers = [replace(x, inputs=tuple(names.get(n, n) for n in x.inputs)) for x in topology.layers]
    return replace(topology, inputs=inputs, layers=layers)


def _pairs(topology: Topology, layer: Layer) -> Iterable[tuple[str, str]]:
    """Return the pasts of an attention that are inputs of the model, each with its present."""
    if not isinstance(layer.primitive, KeepsKeys):
        return ()
    slots = dict(zip(layer.primitive.slots(), layer.inputs, strict=True))
    found = [slots[name] for name in PAST if slots.get(name) in topology.inputs]
    return zip(found, layer.outputs[1:3], strict=False)


def _tells_shapes(name: str, readers: Mapping[str, list[Layer]], outputs: set[str], *, moved: bool = False) -> bool:
    """Whether *name* is read, and only for shapes: of itself, or of it moved."""
    if moved and name in outputs:
        return False
    return name in readers and all(
        layer.primitive.shapes_only
        or (
            layer.primitive.kind in MOVES
            and name not in layer.inputs[1:]
            and _tells_shapes(layer.outputs[0], readers, outputs, moved=True)
        )
        for layer in readers[name]
    )
