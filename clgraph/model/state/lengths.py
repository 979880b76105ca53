"""The arithmetic of lengths and masks, which the host does before every run: a few small layers with NumPy.

Where only a value's shape is asked for, as that of the tokens' embeddings is, its elements are not computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from clgraph.core.layout import Layout
from clgraph.errors import DeviceMemoryError, InputError, ShapeError, UnsupportedError
from clgraph.graph.faults import faults
from clgraph.graph.interpret import compute
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, Bound, Primitive
from clgraph.graph.refusals import refusals
from clgraph.graph.topology import Inlinable, Topology

_REFUSALS = refusals()


class Lengths:
    """A topology that is computed once a token: what its layers are bound to is kept where sizes do not change it.

    Attributes:
        topology: What is computed.
    """

    def __init__(self, topology: Topology) -> None:
        """Take the layers; nothing is bound yet."""
        self.topology = topology
        self._bound: dict[tuple[str, tuple[int, ...]], Bound] = {}
        self._kept = {layer.name for layer in topology.layers if self._is_kept(layer)}
        self._shaped = _shaped(topology)

    def values(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name.

        Raises ``ShapeError``, ``UnsupportedError`` or ``InputError``, which name the layer that does not fit.
        """
        found: dict[str, Any] = {**self.topology.constants, **feeds}
        for layer in self.topology.layers:
            try:
                results = self._compute(layer, [found[name] for name in layer.inputs])
            except Exception as error:  # it may be of any class
                _refuse(layer, error)
            found.update(zip(layer.outputs, results, strict=False))
        return {name: found[source] for name, source in self.topology.outputs}

    def _compute(self, layer: Layer, arguments: list[Array]) -> tuple[Array, ...]:
        if layer.name in self._shaped:
            return _of_shape(layer.primitive, arguments)
        if layer.name not in self._kept or 0 in [a.size for a in arguments]:
            return compute(layer.primitive, arguments)
        key = layer.name, tuple([a.ndim for a in arguments])
        if (bound := self._bound.get(key)) is None:
            layouts = [Layout.of(a) for a in arguments]
            bound = self._bound[key] = layer.primitive.bind(layouts, arguments)
        return bound.primitive.computed(*(np.asarray(arguments[i]) for i in bound.keep))

    def _is_kept(self, layer: Layer) -> bool:
        primitive = layer.primitive
        if primitive.data_dependent or isinstance(primitive, Inlinable):
            return False
        if type(primitive).bind is Primitive.bind:
            return True
        slots = primitive.value_slots()
        return not primitive.takes_sizes() and all(layer.inputs[i] in self.topology.constants for i in slots)


def _refuse(layer: Layer, error: Exception) -> NoReturn:
    """Raise what *error* of *layer* is to its caller."""
    try:
        with faults("the arithmetic of lengths", layer.name, layer.origin), _REFUSALS:
            raise error
    except (ShapeError, UnsupportedError, DeviceMemoryError, InputError) as refusal:
        raise type(refusal)(f"node {layer.name!r} ({layer.primitive}): {refusal}") from refusal


def _shaped(topology: Topology) -> set[str]:
    """Return the names of the layers whose results are read for their shapes alone, perhaps through one another."""
    read, found = {value for _, value in topology.outputs}, set[str]()
    for layer in reversed(topology.layers):
        primitive = layer.primitive
        if primitive.shapes_only:
            continue
        if primitive.data_dependent or isinstance(primitive, Inlinable) or read & set(layer.outputs):
            read |= set(layer.inputs)
        else:
            found.add(layer.name)
            read |= {layer.inputs[i] for i in primitive.value_slots()}
    return found


def _of_shape(primitive: Primitive, arguments: list[Array]) -> tuple[Array, ...]:
    """Return zeros of the results' shapes, which take no memory."""
    layouts, slots = [Layout.of(a) for a in arguments], primitive.value_slots()
    bound = primitive.bind(layouts, [a if i in slots else None for i, a in enumerate(arguments)])
    made = bound.primitive.infer([layouts[i] for i in bound.keep])
    return tuple(np.broadcast_to(np.zeros((), x.dtype.numpy), x.shape) for x in made)
