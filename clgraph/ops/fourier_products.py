"""Discrete Fourier transforms as matrix products: the layers that stand for DFT and STFT on a device.

A transform of few elements is one product with its matrix. A longer one of ``a * b`` elements is, after Cooley and
Tukey (1965), *b* transforms of *a* elements, a factor for each result, and *a* transforms of *b*.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, prod

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.composite import Composition
from clgraph.graph.primitive import Array
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.matmul import MatMul
from clgraph.ops.pad import Pad
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.transpose import Transpose

ONE_PRODUCT = 512
"""Elements up to which a transform is one product: its matrix of complex numbers takes 4 MiB."""
PRIME = 1024
"""Elements up to which one without factors is, too."""

_WIDE = frozenset({DType.F32, DType.F64})

Linear = Callable[[Array], Array]


def divides(length: int) -> bool:
    """Whether a transform of *length* elements is made of products."""
    factor = _factor(length)
    return length <= (PRIME if factor == 1 else ONE_PRODUCT) or (factor > 1 and divides(length // factor))


def _factor(length: int) -> int:
    """Return the largest divisor up to the square root."""
    return next(f for f in range(isqrt(length), 0, -1) if length % f == 0)


def product(c: Composition, x: str, linear: Linear) -> str:
    """Add the product ``[rows, n, p] -> [rows, m, q]`` that applies *linear*, a linear map of such arrays, to x."""
    rows, n, p = c.layout(x).shape
    matrix = linear(np.eye(n * p).reshape(n * p, n, p))
    _, m, q = matrix.shape
    weights = c.constant(matrix.reshape(n * p, m * q).astype(c.layout(x).dtype.numpy))
    y = c.add(MatMul(), c.add(Reshape((rows, n * p), zero_is_zero=True), x), weights)
    return c.add(Reshape((rows, m, q), zero_is_zero=True), y)


def transformed(c: Composition, x: str, inverse: bool) -> str:
    """Add the complex transforms of x ``[rows, length, 1 or 2]``: ``[rows, length, 2]``."""
    rows, length, pair = c.layout(x).shape
    a = _factor(length)
    if length <= ONE_PRODUCT or a == 1:
        return product(c, x, lambda basis: pairs((np.fft.ifft if inverse else np.fft.fft)(numbers(basis), axis=1)))
    b = length // a
    # Element n1 * b + n2 of x, and k1 + a * k2 of the result: n1 and k1 count to a, n2 and k2 to b.
    y = transformed(c, _turned(c, x, (rows, a, b, pair), (rows * b, a, pair)), inverse)
    angles = 2j * np.pi * np.outer(np.arange(b), np.arange(a)) / length
    y = _times(c, c.add(Reshape((rows, b, a, 2), zero_is_zero=True), y), np.exp(angles if inverse else -angles))
    y = transformed(c, _turned(c, y, (rows, b, a, 2), (rows * a, b, 2)), inverse)
    return _turned(c, y, (rows, a, b, 2), (rows, length, 2))


def _turned(c: Composition, x: str, shape: tuple[int, ...], result: tuple[int, ...]) -> str:
    """Add x under *shape* with its two middle axes exchanged, under the shape *result*."""
    y = c.add(Transpose((0, 2, 1, 3)), c.add(Reshape(shape, zero_is_zero=True), x))
    return c.add(Reshape(result, zero_is_zero=True), y)


def _times(c: Composition, x: str, factors: Array) -> str:
    """Add the complex products of x ``[rows, b, a, 2]`` with *factors* ``[b, a]``."""
    dtype = c.layout(x).dtype.numpy
    real = c.constant(np.stack([factors.real] * 2, -1).astype(dtype))
    imaginary = c.constant(np.stack([-factors.imag, factors.imag], -1).astype(dtype))
    exchanged = c.add(Gather(3), x, c.constant(np.array([1, 0])))
    return c.add(Eltwise("add"), c.add(Eltwise("mul"), x, real), c.add(Eltwise("mul"), exchanged, imaginary))


def mirrored(c: Composition, x: str, length: int) -> str:
    """Add the whole spectrum ``[rows, length, p]`` of a real signal, whose first half x is ``[rows, n, p]``."""
    pair, places = c.layout(x).shape[2], np.arange(length)
    behind = places > length // 2
    y = c.add(Gather(1), x, c.constant(np.where(behind, length - places, places)))
    signs = np.stack([np.ones(length), np.where(behind, -1, 1)], -1)[:, :pair]
    return c.add(Eltwise("mul"), y, c.constant(signs.astype(c.layout(x).dtype.numpy)))


def fitted(c: Composition, x: str, length: int, pair: int) -> str:
    """Add the first elements of x ``[rows, n, p]``, or all and zeros behind them: ``[rows, length, pair]``."""
    _, n, p = c.layout(x).shape
    if length < n or pair < p:
        x = c.add(Slice((0, 0), (length, pair), axes=(1, 2)), x)
    return c.add(Pad(((0, 0), (0, length - n), (0, 0))), x) if length > n else x


def frames(c: Composition, x: str, length: int, step: int, window: str) -> str:
    """Add the frames ``[batch * frames, length, p]`` of x ``[batch, samples, p]``, times a window of *length*."""
    batch, samples, pair = c.layout(x).shape
    starts = np.arange(0, samples - length + 1, step)
    y = c.add(Gather(1), x, c.constant(starts[:, None] + np.arange(length)))
    if window:
        y = c.add(Eltwise("mul"), y, c.add(Reshape((length, 1), zero_is_zero=True), window))
    return c.add(Reshape((batch * len(starts), length, pair), zero_is_zero=True), y)


def convolved(c: Composition, x: str, step: int, matrix: Array) -> str:
    """Add the products of *matrix* ``[length, p, bins, 2]`` and the frames of x: ``[batch, frames, bins, 2]``."""
    length, pair, bins, parts = matrix.shape
    weights = np.ascontiguousarray(matrix.transpose(2, 3, 1, 0)).reshape(bins * parts, pair, length)
    kernel = c.constant(weights.astype(c.layout(x).dtype.numpy))
    y = c.add(Convolution((step,)), c.add(Transpose((0, 2, 1)), x), kernel)
    batch, _, count = c.layout(y).shape
    return c.add(Reshape((batch, count, bins, parts), zero_is_zero=True), c.add(Transpose((0, 2, 1)), y))


def along_axis(c: Composition, x: str, axis: int, linear: Callable[[str], str]) -> str:
    """Add what *linear* makes of x ``[..., n, ..., p]`` as ``[rows, n, p]``, back in the order of x's axes."""
    shape = c.layout(x).shape
    order = (*(i for i in range(len(shape) - 1) if i != axis), axis, len(shape) - 1)
    outer = tuple(shape[i] for i in order[:-2])
    moved = x if order == tuple(range(len(shape))) else c.add(Transpose(order), x)
    y = linear(c.add(Reshape((prod(outer), *(shape[i] for i in order[-2:])), zero_is_zero=True), moved))
    y = c.add(Reshape((*outer, *c.layout(y).shape[1:]), zero_is_zero=True), y)
    back = tuple(int(i) for i in np.argsort(order))
    return y if moved == x else c.add(Transpose(back), y)


def in_floats(c: Composition, x: str) -> str:
    """Add x as float32, where it is neither that nor float64."""
    return x if c.layout(x).dtype in _WIDE else c.add(Reorder(DType.F32), x)


def numbers(x: Array) -> Array:
    """Return ``[..., 1]`` or ``[..., 2]`` as numbers ``[...]``."""
    return np.asarray(x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0])


def pairs(x: Array) -> Array:
    """Return numbers as pairs of their real and imaginary parts."""
    return np.stack([x.real, x.imag], -1)
