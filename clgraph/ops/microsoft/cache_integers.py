"""Keys and values of a cache as integers of 8 bits, or of 4 of which a byte holds two: made of numbers, and read."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composition
from clgraph.ops.activation import Activation
from clgraph.ops.attention_heads import repeated_heads
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice

CACHE_TYPES = {8: DType.I8, 4: DType.U8}
"""What holds integers of so many bits: of 4 bits two in a byte, the first one in its low half, each 8 larger."""

_OFFSET, _HALF = 8, 16


def scale_of(c: Composition, scale: str, shared: int, width: int) -> str:
    """Return a scale, of all or of each head's elements, as float32 ``[1, 1 or shared, 1, 1 or width]``."""
    layout = c.layout(scale)
    if layout.count not in (1, shared * width):
        raise ShapeError(f"a scale {layout} is neither one number nor one an element of {shared} heads of {width}")
    shape = (1, 1, 1, 1) if layout.count == 1 else (1, shared, 1, width)
    scale = c.add(Reshape(shape), scale)
    return scale if layout.dtype == DType.F32 else c.add(Reorder(DType.F32), scale)


def rounded(c: Composition, x: str, scale: str, bits: int) -> str:
    """Return keys or values ``[batch, shared, tokens, D]`` in steps of the scale: integers, as float32.

    As ONNX Runtime does: products with the inverse of the scale are rounded, halves to even integers.
    """
    x = x if c.layout(x).dtype == DType.F32 else c.add(Reorder(DType.F32), x)
    most = 2 ** (bits - 1)
    inverse = c.add(Eltwise("div"), c.constant(np.ones((), np.float32)), scale)
    steps = c.add(Activation("round"), c.add(Eltwise("mul"), x, inverse))
    return c.add(Activation("clip", -most, most - 1), steps)


def stored(c: Composition, x: str, bits: int) -> str:
    """Return what :func:`rounded` made as a cache holds it."""
    if bits == 8:
        return c.add(Reorder(DType.I8), x)
    width = c.layout(x).shape[3]
    if width % 2:
        raise ShapeError(f"heads of {width} elements cannot be stored two to a byte")
    low, high = (c.add(Slice((i,), (width,), (2,), axes=(3,)), x) for i in range(2))
    high = c.add(Activation("linear", _HALF, _OFFSET * _HALF + _OFFSET), high)
    return c.add(Reorder(DType.U8), c.add(Eltwise("add"), low, high))


def read(c: Composition, cache: str, bits: int, dtype: DType) -> str:
    """Return the integers of a cache as numbers of *dtype*."""
    if bits == 8:
        return c.add(Reorder(dtype), cache)
    batch, shared, places, nbytes = c.layout(cache).shape
    both = c.add(Reorder(dtype), cache)
    high = c.add(Activation("floor"), c.add(Activation("linear", 1 / _HALF), both))
    low = c.add(Eltwise("sub"), both, c.add(Activation("linear", _HALF), high))
    pair = (c.add(Reshape((batch, shared, places, nbytes, 1), zero_is_zero=True), x) for x in (low, high))
    whole = c.add(Reshape((batch, shared, places, 2 * nbytes), zero_is_zero=True), c.add(Concat(4), *pair))
    return c.add(Activation("linear", 1.0, -_OFFSET), whole)


def scaled(c: Composition, x: str, scale: str, heads: int) -> str:
    """Return x ``[batch, heads, tokens, D]`` times the scale of the keys or values that its heads read.

    Products with integers, of which each is a number of steps, are those with numbers then: only x is scaled.
    """
    dtype = c.layout(x).dtype
    scale = scale if c.layout(scale).shape[1] == 1 else repeated_heads(c, scale, heads)
    return c.add(Eltwise("mul"), x, scale if dtype == DType.F32 else c.add(Reorder(dtype), scale))
