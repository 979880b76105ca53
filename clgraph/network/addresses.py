"""Arrays by their addresses: which of the host's kernels may read and write where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clgraph.core.aligned import ALIGNMENT
from clgraph.runtime.instruction_sets import machine

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array

LEAST_BYTES = 1 << 15
"""Smaller constants are copied sooner than the driver is told where they are."""
ANY_BYTE = ("x86_64", "aarch64")
"""Machines whose vectors may start at any byte: in a file of ONNX, weights lie behind names of any length."""
LEAST_BORROWED = 3 << 15
"""The same for inputs and results: to copy 96 KB takes 2 us, to tell the driver 1.4 for an input, 3-5 for a result."""


def left_at(array: Array) -> int | None:
    """Return the address of a constant that kernels may read in place: a large one that nobody writes.

    It has to suit them in address and end (:func:`suits_all`), or all that read it (:func:`suits_readers`).
    """
    if array.nbytes < LEAST_BYTES:
        return None
    flags = array.flags
    suits = flags.c_contiguous and (flags.aligned or machine() in ANY_BYTE)
    return address_of(array) if suits and not flags.writeable else None


def suits_all(array: Array, address: int) -> bool:
    """Whether any kernel can read *array* at its *address*, and as many bytes behind it as a vector may have."""
    return address % ALIGNMENT == 0 and _bytes_behind(array, address) >= ALIGNMENT


def _bytes_behind(array: Array, address: int) -> int:
    """Return how many bytes behind *array*, at *address*, belong to the array that it is a view of."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return address_of(root) + root.nbytes - address - array.nbytes if root.flags.c_contiguous else 0


def address_of(array: Array) -> int:
    """Return where the first element of *array* lies; in half of the time that ``ctypes.data`` takes."""
    address: int = array.__array_interface__["data"][0]
    return address
