"""Means of the floats that bytes stand for, by exact sums of the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.byte_lookup import BYTES
from clgraph.ops.reduce import reduced_shape
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

MOST = (2**31 - 1) // 256
"""Bytes whose sum an int holds."""


@primitive
@frozen
class ByteMean(Primitive):
    """``y = scale / count * (the sum of x over axes - count * zero)``: the mean of the floats that bytes stand for.

    Input: x of u8 or i8, any shape. Output: float32, the shape without the reduced axes, or with ones in their places.
    The sum is exact, in int32: of at most ``MOST`` bytes a mean. Made by prepare_quantization; no model spells it.

    Attributes:
        first, last: The reduced axes: from *first* up to but not *last*.
        scale, zero: Of the bytes, as DequantizeLinear has them.
        keepdims: Whether the reduced axes stay, of size 1.
    """

    first: int
    last: int
    scale: float
    zero: int
    keepdims: bool = True

    kind: ClassVar[str] = "byte_mean"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        count = prod(x.shape[self.first : self.last])
        if x.dtype not in BYTES or not 0 <= self.first < self.last <= x.rank or not 0 < count <= MOST:
            raise ShapeError(f"requires 1 to {MOST} bytes a mean, not {count} of {x}")
        return (Layout(DType.F32, reduced_shape(x.shape, tuple(range(self.first, self.last)), keepdims=self.keepdims)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        axes = tuple(range(self.first, self.last))
        total = x.astype(np.int64).sum(axes, keepdims=self.keepdims) - self.zero * self.count(x.shape)
        return (np.asarray(total.astype(np.float32) * np.float32(self.factor(x.shape))),)

    def count(self, shape: Sequence[int]) -> int:
        """Return the elements of a mean."""
        return prod(shape[self.first : self.last])

    def factor(self, shape: Sequence[int]) -> float:
        """Return the quotient of scale and count, float32."""
        return float(np.float32(self.scale) / np.float32(self.count(shape)))

    def spans(self, shape: Sequence[int]) -> tuple[int, int, int]:
        """Return the elements in front of the reduced axes, along them, and behind them."""
        return prod(shape[: self.first]), self.count(shape), prod(shape[self.last :])

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return float(inputs[0].count)


def byte_mean_limits(q: Query[ByteMean]) -> str | None:
    """Say why the tensors are not what kernels of means of bytes read and write, or return ``None``."""
    return None if q.inputs[0].is_dense_plain and q.outputs[0].is_dense_plain else "serves dense plain tensors"


@implements(ByteMean, name="byte_mean.ref", serves=Serves(dtypes=BYTES | {DType.F32}, mixed=True), general=True)
class ByteMeanRef(General[ByteMean]):
    """One work-item a mean."""

    @classmethod
    def further_limits(cls, q: Query[ByteMean]) -> str | None:
        return byte_mean_limits(q)

    @classmethod
    def plan(cls, q: Query[ByteMean]) -> Plan:
        f, x, (y,) = q.primitive, q.inputs[0], q.outputs
        _, count, inner = f.spans(x.shape)
        jit = Jit().define(T=x.dtype)
        numbers = table([count, inner, f.zero * count])
        arguments = ("in0", "out0", numbers, f.factor(x.shape))
        return Plan((launch("byte_mean/byte_mean_ref", jit, y.count, *arguments),))
