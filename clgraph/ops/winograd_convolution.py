"""Convolution by Winograd's algorithm: what a 3x3 convolution becomes when its weights have been transformed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads, window_sizes
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.convolution import Convolution
from clgraph.ops.winograd_weights import LANES, original_weights, positions_of


@primitive
@frozen
class WinogradConvolution(Primitive):
    """The convolution without groups whose 3x3 weights :class:`WinogradWeights` has transformed.

    Inputs: x ``[N, C, H, W]``, u ``[groups, 36, C filled up, lanes]`` or ``[36, O, C]``, with stride 2 of 25 positions
    in place of 36, optional bias ``[O]``. Made behind selection, for the implementation that asked for u; no model
    spells it.

    Attributes:
        pads: Zeros (before, after) of y and of x.
        outputs: Channels of the result, which u alone does not tell.
        stride, dilation: Along y and x; the stride is 1 or 2.
    """

    pads: Pads
    outputs: int
    stride: int = 1
    dilation: int = 1

    kind: ClassVar[str] = "winograd_convolution"
    holds_sizes: ClassVar[bool] = False

    @property
    def strides(self) -> tuple[int, int]:
        """The stride along y and x, as :class:`Convolution` has them."""
        return (self.stride, self.stride)

    @property
    def dilations(self) -> tuple[int, int]:
        """The dilation along y and x, as :class:`Convolution` has them."""
        return (self.dilation, self.dilation)

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, u = inputs[:2]
        lanes, positions = u.shape[-1], positions_of(self.stride)
        wanted: tuple[int, ...] = (positions, self.outputs, x.shape[1])
        if u.rank != 3:
            wanted = (-(-self.outputs // lanes), positions, -(-x.shape[1] // LANES) * LANES, lanes)
        if u.shape != wanted or x.rank != 4:
            raise ShapeError(f"transformed weights {list(u.shape)} do not fit {list(x.shape)}, which requires {wanted}")
        sizes = window_sizes(x.shape[2:], (3, 3), self.strides, self.dilations, self.pads)
        return (x.with_shape((x.shape[0], self.outputs, *sizes)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, u = inputs[:2]
        w = original_weights(u, self.outputs, x.shape[1], self.stride).astype(np.result_type(u, np.float32))
        return Convolution(self.strides, self.dilations, self.pads).reference(x, w, *inputs[2:])

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 18.0 * outputs[0].count * inputs[0].shape[1]
