"""Host nodes of a network: running references, and copying values between devices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clgraph.core.layout import Layout
from clgraph.errors import ProgramError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.network.buffer_table import BufferTable
from clgraph.network.tensors import constant_array, covers_span, gather, scatter


class Host:
    """Logical arrays of the values that live on the host during a run, and access to those that do not.

    Attributes:
        arrays: Values whose memory is not a device's.
        places: The devices beside it.
    """

    def __init__(self, places: Mapping[str, BufferTable]) -> None:
        """Work beside the devices of *places*."""
        self.places = places
        self._in_flight: list[Array] = []
        self.arrays: dict[Value, Array] = {}

    def get(self, value: Value) -> Array:
        """Return the logical array of *value*; waits for the device that makes it."""
        if value.constant is not None:
            return constant_array(value)
        places = self._home(value)
        return self.arrays[value] if places is None else gather(places.read(value), value.layout)

    def put(self, value: Value, array: Array) -> None:
        """Make *array* the content of *value*."""
        places = self._home(value)
        if places is None:
            self.arrays[value] = array
            return
        layout = value.layout
        memory = np.zeros(layout.span, layout.dtype.numpy) if covers_span(layout) else places.read(value)
        scatter(array, layout, memory)
        self._send(places, value, memory)

    def run(self, node: Node) -> None:
        """Compute *node* with its reference, fused operations included."""
        results = node.reference(*(self.get(v) for v in node.inputs))
        for value, array in zip(node.outputs, results, strict=True):
            layout = value.layout
            if array.shape != layout.shape or array.dtype != layout.dtype.numpy:
                made = f"{array.dtype} {list(array.shape)}"
                raise ProgramError(f"node {node.name!r}: the reference of {node.primitive} made {made}, not {layout}")
            self.put(value, np.asarray(array))

    def carry(self, value: Value, target: Value) -> None:
        """Copy *value* to *target*, of the same shape and type; waits for the device that makes it."""
        source, places = self._home(value), self._home(target)
        if source is not None and places is not None and _lie_alike(value.layout, target.layout):
            self._send(places, target, source.read(value))
        else:
            self.put(target, self.get(value))

    def forget(self) -> None:
        """Drop what belongs to the run that is over; nothing may be in flight any more."""
        self._in_flight.clear()
        self.arrays.clear()

    def _home(self, value: Value) -> BufferTable | None:
        if value.buffer is None:
            raise ProgramError(f"{value.name} has no place in memory")
        return self.places.get(value.buffer.placement)

    def _send(self, places: BufferTable, value: Value, memory: Array) -> None:
        self._in_flight.append(memory)
        places.write(value, memory)


def _lie_alike(first: Layout, second: Layout) -> bool:
    """Whether memory of the *first* layout is memory of the second as it is, and nothing lies between its elements."""
    if not covers_span(first):
        return False
    if first == second or first.halo or second.halo or first.format != second.format:
        return first == second
    from clgraph.core.strides import same_places

    return same_places(first, second)
