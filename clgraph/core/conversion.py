"""Conversion of arrays between element types, as ONNX's Cast defines it."""

from __future__ import annotations

from typing import Any

import numpy as np

from clgraph.core.dtype import DType

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]

ROUND_MODES = ("up", "down", "nearest")
"""Ways to round to F8E8M0."""
_LARGEST = {DType.F8E4M3FN: 448.0, DType.F8E4M3FNUZ: 240.0, DType.F8E5M2: 57344.0, DType.F8E5M2FNUZ: 57344.0}
SATURATED = frozenset(_LARGEST)
"""Types in which ``saturate`` decides what becomes of numbers beyond the largest."""

_THROUGH_FLOAT = SATURATED | {DType.BF16, DType.F4E2M1}


def converted(x: Array, dtype: DType, *, saturate: bool = True, round_mode: str = "up") -> Array:
    """Return *x* as *dtype*: floats rounded to the nearest, halves to even, and to integers towards zero.

    What becomes a float of 16 bits and less but float16 is a float32 on its way. Integers lose their upper bits.
    A float that an integer does not hold, which ONNX leaves open, becomes what an x86 CPU makes of it, by the device
    too: the least integer; of 8 and 16 bits the lower bits of one of 32 bits, of uint32 those of one of 64.

    Args:
        saturate: Numbers beyond the largest of ``SATURATED`` types, infinity among them, become that one; else
            infinity, or NaN where there is none. Powers of two (F8E8M0) that would be rounded up to NaN stay.
        round_mode: One of ``ROUND_MODES``.
    """
    if x.dtype == dtype.numpy:
        return x.copy()
    with np.errstate(all="ignore"):
        if dtype is DType.F8E8M0:
            return _powers(x.astype(np.float32), saturate, round_mode).view(dtype.numpy)
        if dtype in _THROUGH_FLOAT:
            x = x.astype(np.float32)
        if saturate and dtype in SATURATED:
            x = np.clip(x, np.float32(-_LARGEST[dtype]), np.float32(_LARGEST[dtype]))
        if dtype is DType.U32 and x.dtype.kind == "f":
            x = x.astype(np.int64)  # NumPy's own conversion of what does not fit depends on how many there are
        return x.astype(dtype.numpy)


def _powers(x: Array, saturate: bool, round_mode: str) -> Array:
    """Return the bytes of float32s as powers of two: their exponents, one more where *round_mode* rounds up."""
    bits = x.view(np.uint32)
    exponent, fraction = bits >> 23 & 255, bits & 0x7FFFFF
    half = 1 << 22
    rounds = {"up": fraction > 0, "nearest": (fraction > half) | ((fraction == half) & (exponent > 0))}
    up = rounds.get(round_mode, np.zeros(x.shape, bool)) & (exponent < (254 if saturate else 255))
    return np.asarray(exponent + up).astype(np.uint8)
