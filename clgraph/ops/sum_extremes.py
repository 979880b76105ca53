"""Extremes of the sums of a convolution of bytes: what rounding its results by their range asks for, without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.graph.primitive import Array, primitive
from clgraph.ops.quantized_convolution import QuantizedConvolution


@primitive
@frozen
class SumExtremes(QuantizedConvolution):
    """The results of the largest and of the smallest sum of each channel, ``[2, O, 1, ...]`` in F32.

    Inputs and attributes: those of the convolution. What rises or falls with each result has its extremes among what it
    makes of these.
    """

    kind: ClassVar[str] = "sum_extremes"

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (y,) = QuantizedConvolution.infer(self, inputs)
        return (Layout(DType.F32, (2, y.shape[1], *(1,) * (y.rank - 2))),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, start, scale, bias, *zero = inputs
        ones, none = np.ones(scale.shape), np.zeros(bias.shape)
        (sums,) = QuantizedConvolution.reference(self, x, w, start, ones, none, *zero)
        wide = (-1, *(1,) * (x.ndim - 2))
        axes = (0, *range(2, sums.ndim))
        found = np.stack([sums.max(axes), sums.min(axes)]).reshape(2, *wide).astype(np.float32)
        return (found * scale.reshape(wide) + bias.reshape(wide),)
