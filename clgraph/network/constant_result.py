"""Constant results, copied into new arrays without reading elements that are alike."""

from __future__ import annotations

import numpy as np

from clgraph.graph.primitive import Array
from clgraph.network.result_memory import LEAST_BYTES

SAMPLES = 64
"""Elements that are looked at before all are compared."""
OTHERS = 64
"""Of so many elements of a constant one may be another, which is written by itself."""


class ConstantResult:
    """What a result always is.

    Attributes:
        array: Of a large one whose elements are alike, but for few, a view of one of these.
    """

    def __init__(self, array: Array) -> None:
        """Keep *array*, a copy of a small one: it may lie in a mapped file, which no run looks at."""
        self.array = array.copy() if array.nbytes < LEAST_BYTES else array
        self._places = self._others = np.empty(0, np.intp)
        if array.nbytes >= LEAST_BYTES and array.flags.c_contiguous:
            self._find_alike(array.reshape(-1))

    def _find_alike(self, flat: Array) -> None:
        bits = flat.view(f"u{flat.itemsize}")
        found, counts = np.unique(bits[:: max(1, bits.size // SAMPLES)], return_counts=True)
        if counts.max() < 0.9 * counts.sum():
            return
        other = bits != found[counts.argmax()]
        if np.count_nonzero(other) * OTHERS > bits.size:
            return
        shape = self.array.shape
        self._places = np.flatnonzero(other)
        self._others = flat[self._places]
        self.array = np.broadcast_to(flat[np.argmin(other)], shape)

    def write(self, target: Array) -> None:
        """Copy it to *target*, of its shape and type."""
        target[...] = self.array
        if self._places.size:
            # A view of the elements takes a tenth of the time that an iterator over them takes.
            elements = target.reshape(-1) if target.flags.c_contiguous else target.flat
            elements[self._places] = self._others

    def whole(self) -> Array:
        """Return all of it, C-contiguous."""
        if not self._places.size:
            return np.ascontiguousarray(self.array)
        found = np.array(self.array)
        self.write(found)
        return found
