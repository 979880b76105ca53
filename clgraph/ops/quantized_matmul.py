"""Matrix products of 8-bit integers whose exact sums are scaled: pointwise convolutions to every kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.format import Format, channels_last
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.memo import remembered
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.quantized_convolution import (
    SERVES,
    QuantizedConvolution,
    QuantizedConvolutionRef,
    check_types,
    scaled,
)
from clgraph.selector.general import General
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

V = TypeVar("V")


@primitive
@frozen
class QuantizedMatMul(Primitive):
    """``y[..., n] = (start[n] + sum over k of a[..., k] (b[k, n] + shift)) * scale[n] + bias[n]``; the sum is exact.

    Inputs: a ``[..., M, K]`` in I8 or U8, b ``[K, N]`` in I8, start in I32, scale and bias in F32, each ``[N]``;
    optionally the zero point of a, one number of its type, where the network computes it: the start is ``-zero`` times
    what stands there then.

    Attributes:
        transpose_b: Whether b is stored ``[N, K]``.
        dtype: Of the result, F32 or F16.
        shift: As of :class:`QuantizedConvolution`.
    """

    transpose_b: bool = False
    dtype: DType = DType.F32
    shift: int = 0

    kind: ClassVar[str] = "quantized_matmul"
    holds_sizes: ClassVar[bool] = False
    exact_inputs: ClassVar[frozenset[int]] = frozenset({3, 4})

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        a, b = inputs[:2]
        if a.rank < 2 or b.rank != 2:
            raise ShapeError(f"requires matrices and one matrix, not {list(a.shape)} and {list(b.shape)}")
        n, k = b.shape if self.transpose_b else b.shape[::-1]
        if a.shape[-1] != k:
            raise ShapeError(f"{list(a.shape)} has {a.shape[-1]} columns, {list(b.shape)} {k} rows")
        check_types(inputs, n, self.dtype)
        return (Layout(self.dtype, (*a.shape[:-1], n)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        a, b, start, scale, bias, *given = inputs
        right = b.T if self.transpose_b else b
        begin = start * -float(given[0].reshape(())) if given else start
        # Doubles hold sums of 2^37 products.
        sums = np.matmul(a.astype(np.float64), right.astype(np.float64) + self.shift) + begin
        return (scaled(sums, scale, bias, self.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 2.0 * outputs[0].count * inputs[0].shape[-1]


@remembered
def as_convolution(q: Query[QuantizedMatMul]) -> Query[QuantizedConvolution]:
    """Return the pointwise convolution that *q* is: rows are pixels, and the last axis holds the channels."""
    a, b, *parameters = q.own
    rank = max(a.rank, 3)
    n, k = b.shape if q.primitive.transpose_b else b.shape[::-1]
    spatial = rank - 2
    weights = Layout(DType.I8, (n, k, *(1,) * spatial), channels_last(rank))
    ones, none = (1,) * spatial, ((0, 0),) * spatial
    inputs = (_pixels(a, rank), weights, *parameters, *(_pixels(x, rank) for x in q.inputs[q.arity :]))
    window = QuantizedConvolution(ones, ones, none, dtype=q.primitive.dtype, shift=q.primitive.shift)
    return Query(window, inputs, (_pixels(q.outputs[0], rank),), q.device, q.arity, q.fused, q.constant)


def _pixels(x: Layout, rank: int) -> Layout:
    """Return *x*, which is plain, with its last axis as channels of *rank* axes in channels-last order."""
    missing = rank - x.rank
    order = (0, rank - 1, *range(1, rank - 1))

    def turned(values: Sequence[V], first: V) -> tuple[V, ...]:
        wide = (*(first for _ in range(missing)), *values)
        return tuple(wide[a] for a in order)

    halo, pitches = turned(x.halo, (0, 0)) if x.halo else (), turned(x.pitches, 0) if x.pitches else ()
    return Layout(x.dtype, turned(x.shape, 1), channels_last(rank), halo, pitches)


@implements(QuantizedMatMul, name="quantized_matmul.ref", serves=SERVES, general=True)
class QuantizedMatMulRef(General[QuantizedMatMul]):
    """One work-item an output element, any number of axes."""

    rounds = True

    @classmethod
    def further_limits(cls, q: Query[QuantizedMatMul]) -> str | None:
        if any(not x.format.is_plain for x in (*q.inputs, *q.outputs)):
            return "requires plain formats"
        return QuantizedConvolutionRef.further_limits(as_convolution(q))

    @classmethod
    def cost(cls, q: Query[QuantizedMatMul]) -> float:
        return QuantizedConvolutionRef.cost(as_convolution(q))

    @classmethod
    def plan(cls, q: Query[QuantizedMatMul]) -> Plan:
        turned = as_convolution(q)
        b = turned.inputs[1]
        if not q.primitive.transpose_b:
            # As it is stored: the outputs lie side by side.
            b = Layout(b.dtype, b.shape, Format((*range(2, b.rank), 1, 0)))
        inputs = (turned.inputs[0], b, *turned.inputs[2:])
        return QuantizedConvolutionRef.plan(turned.with_layouts(inputs, turned.outputs))
