"""Memory of the host that any vector code may read in place."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALIGNMENT = 64
"""Bytes that such memory starts at a multiple of, and that may be read behind it."""


def aligned(nbytes: int) -> NDArray[Any]:
    """Return *nbytes* new bytes whose first is aligned, with as many as ``ALIGNMENT`` behind them that may be read."""
    memory = np.empty(nbytes + 2 * ALIGNMENT, np.uint8)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(memory.data)) % ALIGNMENT
    return memory[start : start + nbytes]
