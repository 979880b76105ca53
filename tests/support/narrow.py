"""Numbers that tell how a type of few bits is rounded to."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import STORED, DType

NARROW = (DType.BF16, *(dtype for dtype in DType if dtype in STORED))
"""Every type that NumPy itself does not have."""


def every_code(dtype: DType) -> np.ndarray:
    """Return an array of each number that *dtype* holds, infinities and every NaN."""
    return np.arange(1 << dtype.bits, dtype=np.uint16 if dtype.bits == 16 else np.uint8).view(dtype.numpy)


def numbers_beside(dtype: DType) -> np.ndarray:
    """Return float32s at, halfway between and right beside neighbours of *dtype*, and beyond its largest; also
    infinities, NaN, zeros and denormals. Of integers, those that it holds and what is cut off between.
    """
    if dtype.name[0] in "IU":
        low, high = dtype.bounds
        return np.arange(4 * low, 4 * high + 1, dtype=np.float32) / 4
    if dtype is DType.BF16:
        codes = np.random.default_rng(0).integers(0, 0x7F7F, 400, dtype=np.uint16)
        held, upper = (c.view(dtype.numpy).astype(np.float32) for c in (codes, codes + np.uint16(1)))
    else:
        codes = every_code(dtype).astype(np.float32)
        held = np.unique(np.abs(codes[np.isfinite(codes)]))
        upper = np.append(held[1:], np.float32(1.25) * held[-1])
    with np.errstate(over="ignore"):
        middle = (held.astype(np.float64) / 2 + upper.astype(np.float64) / 2).astype(np.float32)
    sides = [np.nextafter(v, np.float32(to)) for v in (held, middle) for to in (0, np.inf)]
    nan = [] if dtype is DType.F4E2M1 else [np.nan]  # nothing says what becomes of it there
    with np.errstate(over="ignore"):
        special = np.array([0, 1e-45, 1e-40, 1e38, np.inf, *nan, held[-1] * 1.5, held[-1] * 100], np.float32)
    found = np.concatenate([held, middle, *sides, special])
    return np.concatenate([found, -found])
