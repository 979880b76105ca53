"""Winograd's algorithm in float64: what kernels compute, and the magnitudes that bound their errors.

F(4x4, 3x3), and F(2x2, 3x3) for stride 2: both have tiles that are 4 pixels of the input apart.
"""

from __future__ import annotations

import numpy as np

from clgraph.ops.winograd_weights import weight_matrix

POINTS = (0.0, 0.75, -0.75, 1.5, -1.5)
GAINS = {1: 27.5, 2: 5.0}
"""By stride, the largest row of |A^T| diag(row sums of |G|, of |B^T|): what max|g| max|d| is multiplied by, an axis."""
ROUNDINGS = {1: 15, 2: 7}
"""By stride, those on the way from an operand to the result, beside one a channel."""


def input_matrix(stride=1):
    """B^T: the coefficients of the product of x - q over the points q but the row's, ascending."""
    if stride == 2:
        return np.array([[1, 0, -1, 0, 0], [0, 0, 2, 0, 0], [0, 0, -1, 0, 1], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0.0]])
    rows = [np.poly([q for q in POINTS if q != p])[::-1] for p in POINTS]
    return np.array([*([*row, 0.0] for row in rows), np.poly(POINTS)[::-1]])


def output_matrix(stride=1):
    """A^T: powers of the points; infinity counts in the last pixel alone."""
    if stride == 2:
        return np.array([[1, 1, 0, 1, 0], [0, 1, 1, 0, 1.0]])
    return np.array([[*(p**i for p in POINTS), float(i == 3)] for i in range(4)])


def winograd(x, w, pads, magnitude=False, stride=1, dilation=1):
    """Return the convolution of that *stride* in float64; of absolute values throughout with *magnitude*."""
    if dilation > 1:
        padded = np.pad(x, ((0, 0), (0, 0), *pads))
        y = np.empty((x.shape[0], w.shape[0], *(s - 2 * dilation for s in padded.shape[2:])))
        for p, q in np.ndindex(*(min(dilation, s) for s in y.shape[2:])):
            phase = np.s_[:, :, p::dilation, q::dilation]
            y[phase] = winograd(padded[phase], w, ((0, 0), (0, 0)), magnitude)
        return y
    at, g, bt = output_matrix(stride), weight_matrix(stride), input_matrix(stride)
    if magnitude:
        at, g, bt, x, w = map(np.abs, (at, g, bt, x, w))
    (edge, _), side = at.shape, len(bt)
    height, width = ((s + sum(p) - 3) // stride + 1 for s, p in zip(x.shape[2:], pads, strict=True))
    rows, columns = -(-height // edge), -(-width // edge)
    reach = [n * 4 + side - 4 for n in (rows, columns)]
    more = [(b, r - b - s) for (b, _), r, s in zip(pads, reach, x.shape[2:], strict=True)]
    padded = np.pad(x, ((0, 0), (0, 0), *((b, max(a, 0)) for b, a in more)))[:, :, : reach[0], : reach[1]]
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), (2, 3))[:, :, ::4, ::4]
    v = (bt @ windows @ bt.T).transpose(4, 5, 0, 2, 3, 1).reshape(side, side, -1, x.shape[1])
    u = (g @ w @ g.T).transpose(2, 3, 1, 0)
    m = (v @ u).reshape(side, side, x.shape[0], rows, columns, -1).transpose(2, 5, 3, 4, 0, 1)
    y = (at @ m @ at.T).transpose(0, 1, 2, 4, 3, 5).reshape(x.shape[0], w.shape[0], rows * edge, columns * edge)
    return y[:, :, :height, :width]
