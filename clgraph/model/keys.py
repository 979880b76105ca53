"""What a specialisation of a model holds for: input shapes, and values of inputs that determine shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from clgraph.core.dtype import named, spelled
from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology


@frozen
class InputValue:
    """A value of an input, as part of a key."""

    dtype: str
    shape: Shape
    data: bytes

    @staticmethod
    def of(value: Any) -> InputValue:
        """Return what *value*, an array or what NumPy can make one of, holds now."""
        array = np.asarray(value)
        return InputValue(spelled(array.dtype), array.shape, array.tobytes())

    @property
    def array(self) -> Array:
        """The value as a new read-only array."""
        return np.frombuffer(self.data, named(self.dtype)).reshape(self.shape)

    def __str__(self) -> str:
        return np.array2string(self.array, separator=", ", threshold=16)


@frozen
class Key:
    """What a specialisation holds for.

    Attributes:
        shapes: Of the inputs, in their order.
        values: The inputs, by name, whose values decide sizes inside the model, such as the shape that a Reshape reads.
    """

    shapes: tuple[Shape, ...]
    values: tuple[tuple[str, InputValue], ...] = ()

    def text(self, topology: Topology) -> str:
        """Return the key in words."""
        parts = [f"{name} {list(shape)}" for name, shape in zip(topology.inputs, self.shapes, strict=True)]
        return ", ".join(parts + [f"{name} = {value}" for name, value in self.values])
