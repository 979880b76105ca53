"""Texts of many floats of up to 32 bits at once: the digits of all are made by arrays."""

from __future__ import annotations

import numpy as np

from clgraph.graph.primitive import Array

DIGITS = 8
"""Significant digits of a text."""

LEAST, MOST = 1e-4, 99999992.0
"""Bounds of the numbers that are written here: without an exponent, as ``%g`` writes them, and rounded to no more."""

_EXPONENTS = range(-4, DIGITS)

_POWERS = np.array([10.0**i for i in range(DIGITS - 1 - _EXPONENTS[0] + 1)])
"""Of ten, exact: times a float of 24 bits they are exact, too, so that a product is rounded once, to an integer."""

_BOUNDS = np.array([10.0**i for i in _EXPONENTS[1:]])
"""Where the exponents begin; no float of 32 bits lies between a power of ten and its double."""


def decimal_texts(numbers: Array) -> tuple[Array, Array]:
    """Return the texts of *numbers* with eight significant digits, as ``%.8g`` has them, and the number each text is.

    Args:
        numbers: Floats of up to 32 bits as float64 ``[n]``, none nearer to zero than ``LEAST`` or beyond ``MOST``.
    """
    sizes, signs = np.abs(numbers), np.signbit(numbers)
    exponents = _BOUNDS.searchsorted(sizes, "right") + _EXPONENTS[0]
    powers = _POWERS.take(DIGITS - 1 - exponents)
    whole = np.rint(sizes * powers)
    found = whole / powers
    carried = whole == 10**DIGITS
    exponents, whole = exponents + carried, np.where(carried, 10 ** (DIGITS - 1), whole).astype(np.int32)
    texts = np.empty(len(numbers), object)
    for exponent in _EXPONENTS:
        for sign in (False, True):
            at = np.flatnonzero((exponents == exponent) & (signs == sign))
            if len(at):
                texts[at] = _alike(_digits(whole[at]), exponent, "-" if sign else "")
    return texts, np.where(signs, -found, found)


def _digits(whole: Array) -> Array:
    """Return the eight digits of each integer as code points ``[n, 8]``, uint32."""
    made = np.empty((DIGITS, len(whole)), np.uint32)
    for column in reversed(made):
        left = whole // 10
        np.add(whole - left * 10, ord("0"), out=column, casting="unsafe")
        whole = left
    return made.T


def _alike(digits: Array, exponent: int, sign: str) -> Array:
    """Return the texts of digits whose first stands for tens to the *exponent*; NumPy drops zero bytes at an end."""
    counts = DIGITS - np.argmax((digits != ord("0"))[:, ::-1], 1)
    before = sign + ("0." + "0" * (-exponent - 1) if exponent < 0 else "")
    units = max(exponent + 1, 0)
    kept = np.where(np.arange(DIGITS) < np.maximum(counts, units)[:, np.newaxis], digits, 0)
    point = np.where(counts > units, ord("."), 0)[:, np.newaxis] if units else kept[:, :0]
    begin = np.tile(np.array([*map(ord, before)], np.uint32), (len(kept), 1))
    made = np.concatenate((begin, kept[:, :units], point, kept[:, units:]), 1).astype(np.uint32)
    return made.view(f"U{made.shape[1]}").reshape(-1).astype(object)
