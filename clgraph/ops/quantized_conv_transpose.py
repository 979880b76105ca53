"""Transposed convolutions of 8-bit integers whose windows lie side by side: a product for each of their elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.quantized_convolution import QuantizedConvolution, check_types, scaled
from clgraph.selector.query import Query


@primitive
@frozen
class QuantizedConvTranspose(Primitive):
    """``y[o, i * kernel + e] = (start[e, o] + sum over c of x[c, i] w[e, o, c]) * scale[o] + bias[o]``; exact sums.

    Inputs: x ``[N, C, *spatial]`` in I8 or U8, w ``[E, O, C]`` in I8 with the elements e of a window in order, start
    ``[E, O]`` in I32, scale and bias in F32, each ``[O]``. With a start of ``-zero * sum of w`` it is the transposed
    convolution of ``x - zero`` with strides as large as the kernel.

    Attributes:
        kernel: Elements of a window along each spatial axis.
        dtype: Of the result, F32 or F16.
    """

    kernel: tuple[int, ...]
    dtype: DType = DType.F32

    kind: ClassVar[str] = "quantized_conv_transpose"
    holds_sizes: ClassVar[bool] = False
    exact_inputs: ClassVar[frozenset[int]] = frozenset({3, 4})

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, w, start = inputs[:3]
        wanted = (prod(self.kernel), *w.shape[1:2], *x.shape[1:2])
        if x.rank != len(self.kernel) + 2 or w.shape != wanted or start.shape != w.shape[:2] or len(inputs) != 5:
            found = f"x {list(x.shape)}, weights {list(w.shape)} and start {list(start.shape)}"
            raise ShapeError(f"windows of {list(self.kernel)} fit no {found}")
        check_types((x, w, start.with_shape(w.shape[1:2]), *inputs[3:]), w.shape[1], self.dtype)
        sizes = (n * k for n, k in zip(x.shape[2:], self.kernel, strict=True))
        return (Layout(self.dtype, (x.shape[0], w.shape[1], *sizes)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, start, scale, bias = inputs
        batch, spatial, rank = x.shape[0], x.shape[2:], len(self.kernel)
        strips = x.reshape(batch, 1, x.shape[1], prod(spatial)).astype(np.float64)
        # Doubles hold sums of 2^37 products.
        sums = np.matmul(w.astype(np.float64), strips) + start[..., None]
        made = scaled(sums, scale[:, None], bias[:, None], self.dtype)
        made = made.reshape(batch, *self.kernel, w.shape[1], *spatial)
        pairs = [axis for i in range(rank) for axis in (rank + 2 + i, 1 + i)]
        sizes = (n * k for n, k in zip(spatial, self.kernel, strict=True))
        return (np.ascontiguousarray(made.transpose(0, rank + 1, *pairs)).reshape(batch, w.shape[1], *sizes),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 2.0 * outputs[0].count * inputs[0].shape[1]


def one_element(q: Query[QuantizedConvTranspose]) -> Query[QuantizedConvolution]:
    """Return the pointwise convolution that makes one element of each window; its pixels lie as far apart as these."""
    x, (y,), rank = q.inputs[0], q.outputs, len(q.primitive.kernel)
    pitches = [p * k for p, k in zip(y.all_pitches, (1, 1, *q.primitive.kernel[:-1], 1), strict=True)]
    out = replace(y, shape=(x.shape[0], y.shape[1], *x.shape[2:]), pitches=tuple(pitches))
    ones, none = (1,) * rank, ((0, 0),) * rank
    outputs = q.inputs[1].shape[1]
    weights, start = Layout(DType.I8, (outputs, x.shape[1], *ones)), Layout(DType.I32, (outputs,))
    made: Any = QuantizedConvolution(ones, ones, none, dtype=q.primitive.dtype)
    return Query(made, (x, weights, start, *q.inputs[3:]), (out,), q.device, q.arity, q.fused, q.constant)
