"""Winograd's F(4x4, 3x3) in float64: what kernels compute, and the magnitudes that bound their errors."""

from __future__ import annotations

import numpy as np

from clgraph.ops.winograd_weights import weight_matrix

POINTS = (0.0, 0.75, -0.75, 1.5, -1.5)


def input_matrix():
    """B^T: the coefficients of the product of x - q over the points q but the row's, ascending."""
    rows = [np.poly([q for q in POINTS if q != p])[::-1] for p in POINTS]
    return np.array([*([*row, 0.0] for row in rows), np.poly(POINTS)[::-1]])


def output_matrix():
    """A^T: powers of the points; infinity counts in the last pixel alone."""
    return np.array([[*(p**i for p in POINTS), float(i == 3)] for i in range(4)])


def winograd(x, w, pads, magnitude=False):
    """Return the convolution by F(4x4, 3x3) in float64; of absolute values throughout with *magnitude*."""
    at, g, bt = output_matrix(), weight_matrix(), input_matrix()
    if magnitude:
        at, g, bt, x, w = map(np.abs, (at, g, bt, x, w))
    height, width = (s + sum(p) - 2 for s, p in zip(x.shape[2:], pads, strict=True))
    rows, columns = -(-height // 4), -(-width // 4)
    more = [(b, n * 4 + 2 - b - s) for (b, _), n, s in zip(pads, (rows, columns), x.shape[2:], strict=True)]
    padded = np.pad(x, ((0, 0), (0, 0), *((b, max(a, 0)) for b, a in more)))[:, :, : rows * 4 + 2, : columns * 4 + 2]
    windows = np.lib.stride_tricks.sliding_window_view(padded, (6, 6), (2, 3))[:, :, ::4, ::4]
    v = (bt @ windows @ bt.T).transpose(4, 5, 0, 2, 3, 1).reshape(6, 6, -1, x.shape[1])
    u = (g @ w @ g.T).transpose(2, 3, 1, 0)
    m = (v @ u).reshape(6, 6, x.shape[0], rows, columns, -1).transpose(2, 5, 3, 4, 0, 1)
    y = (at @ m @ at.T).transpose(0, 1, 2, 4, 3, 5).reshape(x.shape[0], w.shape[0], rows * 4, columns * 4)
    return y[:, :, :height, :width]
