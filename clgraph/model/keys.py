"""The key of a specialisation: input shapes, and values of inputs that determine shapes."""

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
    """The value of an input on which shapes depend: element type, shape and bytes; hashable."""

    dtype: str
    shape: Shape
    data: bytes

    @staticmethod
    def of(value: Any) -> InputValue:
        """Return the present value of *value*, an array or anything that NumPy converts to one."""
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
    """The input shapes, and the values that decide sizes, for which a specialisation is valid.

    Attributes:
        shapes: Of the inputs, in their order.
        values: The inputs, by name, whose values decide sizes inside the model, such as the shape that a Reshape reads.
    """

    shapes: tuple[Shape, ...]
    values: tuple[tuple[str, InputValue], ...] = ()

    def text(self, topology: Topology) -> str:
        """Return the key as text, for reports."""
        parts = [f"{name} {list(shape)}" for name, shape in zip(topology.inputs, self.shapes, strict=True)]
        return ", ".join(parts + [f"{name} = {value}" for name, value in self.values])
