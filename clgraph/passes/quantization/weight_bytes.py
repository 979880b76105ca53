"""Weights of quantised products as the bytes that integer kernels read, shifted where they fit no 8 bits."""

from __future__ import annotations

import numpy as np

from clgraph.graph.integers import Integers
from clgraph.graph.primitive import Array


def less_zero(integers: Integers) -> Array:
    """Return the integers less their zero point, in 16 bits where 8 may not hold them."""
    data, zero = integers.data, integers.zero
    if zero is None or not zero.any():
        return data if data.dtype == np.int8 else data.astype(np.int16)
    shape = [-1 if a == integers.axis else 1 for a in range(data.ndim)] if zero.size > 1 else ()
    return np.asarray(data.astype(np.int16) - zero.astype(np.int16).reshape(shape))


def bytes_of(weights: Array) -> Array | None:
    """Return whole numbers as I8, ``None`` where it does not hold them."""
    if weights.dtype == np.int8:
        return weights
    whole = weights.dtype.kind == "i" or not (weights != np.rint(weights)).any()
    if not whole or weights.max(initial=0) > 127 or weights.min(initial=0) < -128:
        return None
    return np.asarray(weights, np.int8)


def shift_of(weights: Array) -> int:
    """Return what weights are too large or too small by; 0 where they are no bytes however they are shifted."""
    if weights.dtype == np.int8:
        return 0
    low, high = int(weights.min(initial=0)), int(weights.max(initial=0))
    return 0 if high - low > 255 else max(high - 127, 0) + min(low + 128, 0)


def shifts_of(weights: Array, outputs: int) -> Array:
    """Return what the weights of each output, along the axis *outputs*, are too large or too small by, to be added up.

    Nothing where they are no bytes however they are shifted; one number for all where that will do.
    """
    along = tuple(a for a in range(weights.ndim) if a != outputs)
    if whole := shift_of(weights):
        return np.full((1,) * weights.ndim, whole, np.float32)
    low, high = (f(along, initial=0, keepdims=True) for f in (weights.min, weights.max))
    shifts = np.maximum(high - 127, 0) + np.minimum(low + 128, 0)
    return np.where((high - low).max(initial=0) <= 255, shifts, 0).astype(np.float32)
