"""A limit on tensors that the host collects one by one, the scanned results of a loop or a sequence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from clgraph.errors import DeviceMemoryError
from clgraph.graph.known_values import MOST_EVALUATED_BYTES
from clgraph.graph.primitive import Array

ARRAY_BYTES = 128
"""What an array takes beside its elements: those without any count, too."""


class Gathered:
    """Counts the bytes of tensors that are kept until all are there.

    How many there will be is seldom known before: a few bytes of model may ask for 2^40.
    """

    def __init__(self, what: str) -> None:
        """Begin with none; *what* they are called in errors."""
        self._what, self._count, self._nbytes = what, 0, 0

    def add(self, tensors: Iterable[Array]) -> None:
        """Count *tensors*.

        Raises:
            DeviceMemoryError: They take more than ``MOST_EVALUATED_BYTES`` with those before.
        """
        for tensor in tensors:
            self._count += 1
            self._nbytes += tensor.nbytes + ARRAY_BYTES
        if self._nbytes > MOST_EVALUATED_BYTES:
            raise DeviceMemoryError(
                f"{self._what} take more than {MOST_EVALUATED_BYTES} bytes, the most that the host gathers, after "
                f"{self._count} tensors: let the model make fewer or smaller ones"
            )


def stacked(arrays: Sequence[Array], axis: int = 0) -> Array:
    """Return what ``np.stack`` makes of arrays of one shape along *axis*, which takes 5 us on the smallest.

    Raises:
        ValueError: Their shapes differ, or *axis* is none of the result.
    """
    first = arrays[0]
    shape, dtype, rank = first.shape, first.dtype, first.ndim + 1
    if axis < 0:
        axis += rank
    if dtype.hasobject or not 0 <= axis < rank or any([a.dtype != dtype or a.shape != shape for a in arrays]):  # noqa: C419  # a generator takes twice as long
        return np.stack(arrays, axis)
    made = np.empty((*shape[:axis], len(arrays), *shape[axis:]), dtype)
    front: tuple[Any, ...] = (slice(None),) * axis
    for i, a in enumerate(arrays):
        made[(*front, i)] = a
    return made
