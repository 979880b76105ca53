"""Loops written out as layers where constants alone decide how many trips they make: LLVM's full unrolling.

A loop is control flow: it cuts a model into stages, and each trip runs a program of its own, or references on the host.
Written out it is a part of the program like any other. What is the same in every trip stands there once (loop-invariant
code motion); counters are computed while shapes are bound.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError
from clgraph.graph.interpret import ControlFlow, InvariantInputs, compute
from clgraph.graph.known_values import VALUE_ELEMENTS
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Dimension, Signature
from clgraph.graph.topology import Topology
from clgraph.handlers import pass_on

UNROLLED_LAYERS = 4096
"""Layers that a loop is written out to at most: each costs the passes some tenths of a millisecond."""


def unroll(topology: Topology) -> Topology:
    """Return *topology* with the layers of its loops in their place, as far as constants tell their trips."""
    if not any(isinstance(layer.primitive, ControlFlow) for layer in topology.layers):
        return topology
    constants, layers = dict(topology.constants), list[Layer]()
    same: dict[str, str] = {}
    deciding, unrolled = set(topology.deciding), False
    for layer in topology.layers:
        layer = replace(layer, inputs=tuple(same.get(name, name) for name in layer.inputs))
        body = None
        if isinstance(layer.primitive, ControlFlow):
            used = set[str]()
            body = layer.primitive.unrolled(_KnownHere(layer, layers, constants, topology.inputs, used))
        if body is None:
            layers.append(layer)
        else:
            unrolled = True
            deciding |= used & topology.overridable.keys()
            same.update(_splice(layer, body, layers, constants))
    if not unrolled:
        return topology
    outputs = [(name, same.get(value, value)) for name, value in topology.outputs]
    return replace(
        topology, constants=constants, layers=layers, outputs=outputs, deciding=frozenset(deciding), unrolled=True
    )


@frozen
class _KnownHere(InvariantInputs):
    """What constants and declared sizes tell of the inputs of a layer.

    Attributes:
        layers: Those in front of it.
        used: Gets the names of the constants that tell it.
    """

    layer: Layer
    layers: Sequence[Layer]
    constants: Mapping[str, Array]
    inputs: Mapping[str, Signature]
    used: set[str]

    def values(self, slots: Collection[int]) -> Mapping[int, Array]:
        reads = self.layer.inputs
        known = known_values([reads[slot] for slot in slots], self.layers, self.constants, self.inputs, self.used)
        return {slot: known[reads[slot]] for slot in slots if reads[slot] in known}

    def size(self, slot: int, axis: int) -> int | None:
        name = self.layer.inputs[slot]
        shape = self._shape_of(name)
        size = None if shape is None or not -len(shape) <= axis < len(shape) else shape[axis]
        return size if isinstance(size, int) else None

    def _shape_of(self, name: str) -> Sequence[Dimension] | None:
        if name in self.inputs:
            return self.inputs[name].shape
        needed = needed_for([name], self.layers)
        read = {name, *(source for layer in needed for source in layer.inputs)}
        inputs = {source: s for source, s in self.inputs.items() if source in read}
        constants = {source: array for source, array in self.constants.items() if source in read}
        self.used.update(source for source, array in constants.items() if array.size <= VALUE_ELEMENTS)
        try:
            return Topology(inputs, constants, needed, [(name, name)]).build().outputs[0][1].layout.shape
        except ClgraphError:
            return None


def known_values(
    wanted: Sequence[str],
    layers: Sequence[Layer],
    constants: Mapping[str, Array],
    inputs: Mapping[str, Signature],
    used: set[str],
) -> dict[str, Array]:
    """Return what constants and declared sizes tell of *wanted*, by name: small arrays.

    Args:
        used: Gets the names of the constants that tell it.
    """
    needed = needed_for(wanted, layers)
    read = {*wanted, *(name for layer in needed for name in layer.inputs)}
    found: dict[str, Array] = {name: constants[name] for name in read if name in constants}
    used.update(found)
    for layer in needed:
        arguments: list[Array | None] = [found.get(name) for name in layer.inputs]
        if layer.primitive.shapes_only:
            arguments = [
                _of_shape(inputs.get(name)) if a is None else a for a, name in zip(arguments, layer.inputs, strict=True)
            ]
        large = any(a is None or a.size > VALUE_ELEMENTS for a in arguments) and not layer.primitive.shapes_only
        if large or layer.primitive.data_dependent or any(a is None for a in arguments):
            continue
        try:
            results = compute(layer.primitive, arguments)
        except Exception as error:  # references may raise of any class
            pass_on(error)
            continue
        small = zip(layer.outputs, results, strict=False)
        found.update((name, array) for name, array in small if array.size <= VALUE_ELEMENTS)
    return found


def _of_shape(signature: Signature | None) -> Array | None:
    """Return an array of the declared shape, which takes no memory."""
    if signature is None or signature.dtype is None or not signature.is_fixed:
        return None
    shape = [d for d in signature.shape or () if isinstance(d, int)]
    return np.broadcast_to(np.zeros((), signature.dtype.numpy), shape)


def needed_for(wanted: Collection[str], layers: Sequence[Layer]) -> list[Layer]:
    """Return those of *layers* that make what is *wanted*, in their order."""
    read, kept = set(wanted), list[Layer]()
    for layer in reversed(layers):
        if not read.isdisjoint(layer.outputs):
            kept.append(layer)
            read.update(layer.inputs)
    return kept[::-1]


def _splice(layer: Layer, body: Topology, layers: list[Layer], constants: dict[str, Array]) -> dict[str, str]:
    """Append the layers of *body* in place of *layer*; return which of its results are another value, by name.

    The inputs of *body* are the layer's last ones.
    """
    names = dict(zip(body.inputs, layer.inputs[len(layer.inputs) - len(body.inputs) :], strict=True))
    for name, array in body.constants.items():
        names[name] = f"{layer.name}/{name}"
        constants[names[name]] = array
    made = {name for inner in body.layers for name in inner.outputs}
    results = list(zip(layer.outputs, (name for _, name in body.outputs), strict=False))
    wanted = {name: outer for outer, name in reversed(results) if name in made}
    for inner in body.layers:
        names.update((name, wanted.get(name, f"{layer.name}/{name}")) for name in inner.outputs)
        layers.append(
            Layer(
                f"{layer.name}/{inner.name}",
                inner.primitive,
                tuple(names[name] for name in inner.inputs),
                tuple(names[name] for name in inner.outputs),
                tuple(dict.fromkeys((*layer.origin, *inner.origin))),
                inner.annotation or layer.annotation,
            )
        )
    return {outer: names[name] for outer, name in results if names[name] != outer}
