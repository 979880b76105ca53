"""Strassen's algorithm in float64: what kernels compute, and the magnitudes that bound their errors."""

from __future__ import annotations

import numpy as np


def strassen(a, b, magnitude=False):
    """Return ``[2][2][rows][columns]``, the quarters of a b for quarters of a ``[2][2][rows][depth]`` and of b.

    With *magnitude*, of absolute values throughout.
    """
    minus = 1.0 if magnitude else -1.0
    if magnitude:
        a, b = np.abs(a), np.abs(b)
    (a11, a12), (a21, a22), (b11, b12), (b21, b22) = *a, *b
    s1, s3, t1, t3 = a21 + a22, a11 + minus * a21, b12 + minus * b11, b22 + minus * b12
    s2, t2 = s1 + minus * a11, b22 + minus * t1
    s4, t4 = a12 + minus * s2, t2 + minus * b21
    u = a11 @ b11 + s2 @ t2
    v, m = u + s3 @ t3, s1 @ t1
    return np.array([[a11 @ b11 + a12 @ b21, u + m + s4 @ b22], [v + minus * (a22 @ t4), v + m]])
