"""Inputs that nothing in a model reads, such as a mask that an exporter has left: programs do not depend on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clgraph.core.layout import Shape
from clgraph.errors import DeviceMemoryError, InputError
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology


class UnreadInputs:
    """The inputs that neither a layer which an output needs nor an output reads, and whose sizes are open.

    Programs take them in one shape for all that fit: an open size is that of its name in an input that is read, else 1.
    """

    def __init__(self, topology: Topology) -> None:
        """Look for them."""
        inputs = topology.inputs
        unread = topology.unread if not all(s.is_fixed for s in inputs.values()) else frozenset()
        self._names = tuple(inputs)
        self._signatures = {
            name: s for name, s in inputs.items() if name in unread and s.dtype and s.shape and not s.is_fixed
        }
        self._sizes = {
            dimension: (name, axis)
            for name, signature in reversed(inputs.items())
            if self._signatures and name not in unread
            for axis, dimension in enumerate(signature.shape or ())
            if isinstance(dimension, str)
        }
        self._latest = dict[str, Array]()

    def shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Return the input shapes, in the order of the inputs, of the program for *shapes*.

        Raises:
            InputError: One does not fit the input that is not read.
        """
        if not self._signatures:
            return shapes
        given = dict(zip(self._names, shapes, strict=True))
        for name, signature in self._signatures.items():
            signature.bound(given[name])
        return tuple(self._shape(name, given) if name in self._signatures else shape for name, shape in given.items())

    def replaced(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Return *feeds* with an array of the program's shape for each input that is not read.

        What does not fit its input stays, and is refused as any other.
        """
        if not self._signatures:
            return feeds
        shapes = {name: given.shape for name, given in feeds.items() if hasattr(given, "shape")}
        return {**feeds, **{n: self._array(s, shapes) for n, s in self._signatures.items() if _fits(s, feeds.get(n))}}

    def _shape(self, name: str, shapes: Mapping[str, Sequence[int]]) -> Shape:
        return tuple(
            dimension if isinstance(dimension, int) else self._size(dimension, shapes)
            for dimension in self._signatures[name].shape or ()
        )

    def _size(self, dimension: str | None, shapes: Mapping[str, Sequence[int]]) -> int:
        name, axis = self._sizes.get(dimension or "", ("", 0))
        shape = shapes.get(name, ())
        return shape[axis] if axis < len(shape) else 1

    def _array(self, signature: Signature, shapes: Mapping[str, Sequence[int]]) -> Array:
        shape = self._shape(signature.name, shapes)
        found = self._latest.get(signature.name)
        if found is None or found.shape != shape:
            assert signature.dtype is not None
            found = self._latest[signature.name] = np.zeros(shape, signature.dtype.numpy)
        return found


def _fits(signature: Signature, given: Any) -> bool:
    """Whether *given* is an array or tensor of the type and a shape that *signature* declares."""
    shape, dtype = getattr(given, "shape", None), getattr(given, "dtype", None)
    if shape is None or signature.dtype is None or dtype != signature.dtype.numpy:
        return False
    try:
        signature.bound(shape)
    except (InputError, DeviceMemoryError):
        return False
    return True
