"""Convolution by Strassen's algorithm: what a 1x1 convolution becomes when its weights have been added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.convolution import Convolution
from clgraph.ops.strassen_weights import PRODUCTS, weights_of


@primitive
@frozen
class StrassenConvolution(Primitive):
    """The 1x1 convolution without pads whose weights :class:`StrassenWeights` has added up.

    Inputs: x ``[N, C, H, W]``, u ``[groups, 7, C / 2, lanes]``, optional bias ``[O]``. Made behind selection, for the
    implementation that asked for u; no model spells it.

    Attributes:
        stride: Along y and x.
    """

    stride: int = 1

    kind: ClassVar[str] = "strassen_convolution"
    holds_sizes: ClassVar[bool] = False

    @property
    def strides(self) -> tuple[int, int]:
        """The stride along y and x, as :class:`Convolution` has them."""
        return (self.stride, self.stride)

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, u = inputs[:2]
        if x.rank != 4 or u.rank != 4 or u.shape[1] != PRODUCTS or 2 * u.shape[2] != x.shape[1]:
            raise ShapeError(f"added up weights {list(u.shape)} do not fit {list(x.shape)}")
        sizes = (-(-size // self.stride) for size in x.shape[2:])
        return (x.with_shape((x.shape[0], 2 * u.shape[0] * u.shape[3], *sizes)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, u = inputs[:2]
        w = weights_of(u).astype(np.result_type(u, np.float32))
        return Convolution(self.strides, (1, 1), ((0, 0), (0, 0))).reference(x, w, *inputs[2:])

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 2.0 * outputs[0].count * inputs[0].shape[1]
