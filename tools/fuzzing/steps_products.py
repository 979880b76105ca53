"""Steps of random graphs: matrix products and convolutions, with weights that a few nodes make, and pooling."""

from __future__ import annotations

import math

import numpy as np

from tools.fuzzing.making import SPECIAL, Making, Shape, Tensor, step
from tools.fuzzing.steps import binary, unary


def product(g: Making, x: Tensor, out: int) -> Tensor:
    """Add a matrix product with constant, computed, or given weights."""
    return g.add("MatMul", x, weights(g, (x.shape[-1], out)), shape=(*x.shape[:-1], out))


def weights(g: Making, shape: Shape) -> Tensor:
    """Return weights: a source, or what a few nodes make of sources."""
    scale = 1 / math.sqrt(max(1, math.prod(shape) // max(1, shape[0])))
    count = math.prod(shape)
    match g.number(0, 6):
        case 0:  # a product that is reshaped: merged weights of exporters
            rows = next(d for d in (16, 8, 4, 3, 2, 1) if count % d == 0)
            a, b = (g.source(s, array=g.array(s) * np.float32(0.3)) for s in ((rows, 12), (12, count // rows)))
            made = g.add("MatMul", a, b, shape=(rows, count // rows))
            return g.add("Reshape", made, g.integers(*shape), shape=shape)
        case 1 if len(shape) == 2:
            made = g.source(shape[::-1], array=g.array(shape[::-1]) * np.float32(scale))
            return g.add("Transpose", made, shape=shape, perm=[1, 0])
        case 2:
            made = g.source(shape, array=g.array(shape) * np.float32(scale))
            return g.add("Mul", made, g.constant(np.float32(0.5)), shape=shape)
        case 3:
            data = g.constant(np.asarray(g.random.integers(-127, 127, shape)).astype(np.int8))
            return g.add("DequantizeLinear", data, g.constant(np.float32(0.01)), shape=shape, dtype=np.float32)
    return g.source(shape, array=g.array(shape) * np.float32(scale))


@step
def matmul(g: Making) -> None:
    x = g.pick(ranks=(1, 2, 3, 4))
    for _ in range(g.number(1, 2)):
        x = product(g, x, int(g.one((1, 3, 16, 17, 32, 64))))
        if g.chance(0.5):
            x = g.add(g.one(("Add", "Mul")), x, g.beside(x) if g.chance(0.5) else g.source(x.shape[-1:]), shape=x.shape)


@step
def merged_weights(g: Making) -> None:
    """Add a product of two large constants, reshaped, and a reader."""
    a, b = g.source((17, 32, 64)), g.source((64, 128))
    made = g.add("MatMul", a, b, shape=(17, 32, 128))
    made = unary(g, made) if g.chance(0.3) else made
    match g.number(0, 3):
        case 0:
            g.add("Reshape", made, g.integers(-1), shape=(17 * 32 * 128,))
        case 1:
            g.add("Flatten", made, shape=(17 * 32, 128), axis=2)
        case 2:
            flat = g.add("Reshape", made, g.integers(17 * 32, 128), shape=(17 * 32, 128))
            g.add("MatMul", g.source((5, 17 * 32)), flat, shape=(5, 128))
        case _:
            x = g.source((17, 32, 8, 16))
            g.add("Add", x, g.add("Reshape", made, g.integers(*x.shape), shape=x.shape), shape=x.shape)


@step
def gemm(g: Making) -> None:
    x = g.pick(ranks=(2,))
    m, k, out = *x.shape, int(g.one((1, 3, 16, 31, 32)))
    flip, turned = g.chance(0.5), g.chance(0.2)
    if turned:
        m, k = k, m
    w = weights(g, (out, k) if flip else (k, out))
    shapes: list[Shape] = [(), (1,), (out,), (1, out), (m, 1), (m, out), (1, 1)]
    bias = g.source(g.one(shapes), keep=False) if g.chance(0.8) else None
    if g.chance(0.4):
        x = g.add("Mul", x, g.constant(np.float32(0.5)), shape=x.shape)
    more = {"alpha": 0.5, "beta": 0.25} if g.chance(0.3) else {}
    y = g.add("Gemm", x, w, *([bias] if bias else []), shape=(m, out), transA=int(turned), transB=int(flip), **more)
    if g.chance(0.5):
        g.add("Mul", y, g.beside(y), shape=y.shape) if g.chance(0.3) else g.add(
            "Mul", y, g.constant(np.float32(2)), shape=y.shape
        )


def picture(g: Making, *, close: str = "") -> Tensor:
    """Return a value of four axes that is large enough for windows."""
    found = [t for t in g.values if t.rank == 4 and t.dtype == np.float32 and min(t.shape[2:]) > 2]
    found = [t for t in found if not (close and getattr(t, close))]
    if found and g.chance(0.7):
        return found[-1]
    return g.source((int(g.one((1, 1, 2))), int(g.one((1, 3, 4, 8, 12, 16, 24, 32))), g.number(3, 12), g.number(3, 12)))


def convolved(g: Making, x: Tensor, special: bool = False) -> Tensor:
    """Add a convolution, grouped in a third of the cases; with *special*, always, NaN or infinity somewhere.

    Those without groups may spread what is special over a tile: Winograd's and Strassen's, as docs/limits.md says.
    """
    n, c, h, w = x.shape
    counts = [d for d in (1, 2, 3, 4, 6, c) if c % d == 0][special:]
    groups = int(g.one(counts)) if special or g.chance(0.4) else 1
    out = groups * int(g.one((1, 2, 4, 8, 16)))
    kernel = int(g.one((1, 3, 3)))
    shape = (out, c // groups, kernel, kernel)
    if special and g.chance(0.5):
        data = g.array(shape)
        data.flat[g.number(0, data.size - 1)] = g.one(SPECIAL)
        kernels = g.source(shape, array=data)
    else:
        kernels = weights(g, shape)
    stride = int(g.one((1, 1, 2)))
    pad = kernel // 2
    sizes = [(d + 2 * pad - kernel) // stride + 1 for d in (h, w)]
    bias = [g.source((out,), keep=False)] if g.chance(0.5) else []
    more = {"pads": [pad] * 4, "strides": [stride] * 2, "group": groups}
    return g.add("Conv", x, kernels, *bias, shape=(n, out, *sizes), **more)


@step
def convolution(g: Making) -> None:
    x = convolved(g, picture(g))
    if g.chance(0.4):
        x = normalized(g, x)
    if g.chance(0.6):
        x = unary(g, x) if g.chance(0.6) else binary(g, x)
    if min(x.shape[2:]) > 2 and g.chance(0.4):
        convolved(g, x)


@step
def special_convolution(g: Making) -> None:
    """Add a grouped convolution of NaN and infinities: what is in one group stays in it."""
    shape = (1, int(g.one((4, 6, 8, 12, 16, 24, 32))), g.number(4, 13), g.number(4, 13))
    data = g.array(shape)
    for _ in range(g.number(1, 3)):
        data.flat[g.number(0, data.size - 1)] = g.one(SPECIAL)
    convolved(g, g.source(shape, array=data, keep=False), special=True)


def normalized(g: Making, x: Tensor) -> Tensor:
    """Add a batch normalization."""
    c = (x.shape[1],)
    sources = [g.source(c, array=g.array(c), keep=False) for _ in range(3)]
    variance = g.source(c, array=np.abs(g.array(c)) + np.float32(0.5), keep=False)
    return g.add("BatchNormalization", x, *sources, variance, shape=x.shape)


@step
def batch_normalization(g: Making) -> None:
    normalized(g, picture(g))


@step
def transposed_convolution(g: Making) -> None:
    x = picture(g)
    n, c, h, w = x.shape
    k, out = int(g.one((2, 3))), int(g.one((1, 4, 8)))
    kernels = g.source((c, out, k, k))
    g.add("ConvTranspose", x, kernels, shape=(n, out, (h - 1) * 2 + k, (w - 1) * 2 + k), strides=[2, 2])


@step
def pooling(g: Making) -> None:
    x = picture(g)
    n, c, h, w = x.shape
    if g.chance(0.3):
        g.add(g.one(("GlobalAveragePool", "GlobalMaxPool")), x, shape=(n, c, 1, 1))
        return
    more = {"kernel_shape": [2, 2], "strides": [2, 2]}
    g.add(g.one(("MaxPool", "AveragePool")), x, shape=(n, c, h // 2, w // 2), **more)
