"""Convolution by Winograd's F(4x4, 3x3): what a 3x3 convolution becomes when its weights have been transformed."""

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
from clgraph.ops.winograd_weights import LANES, POSITIONS, original_weights

_ONES = (1, 1)


@primitive
@frozen
class WinogradConvolution(Primitive):
    """The convolution without stride, dilation and groups whose 3x3 weights :class:`WinogradWeights` has transformed.

    Inputs: x ``[N, C, H, W]``, u ``[groups, 36, C filled up, lanes]`` or ``[36, O, C]``, optional bias ``[O]``. Made
    behind selection, for the implementation that asked for u; no model spells it.

    Attributes:
        pads: Zeros (before, after) of y and of x.
        outputs: Channels of the result, which u alone does not tell.
    """

    pads: Pads
    outputs: int

    kind: ClassVar[str] = "winograd_convolution"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, u = inputs[:2]
        lanes = u.shape[-1]
        wanted: tuple[int, ...] = (POSITIONS, self.outputs, x.shape[1])
        if u.rank != 3:
            wanted = (-(-self.outputs // lanes), POSITIONS, -(-x.shape[1] // LANES) * LANES, lanes)
        if u.shape != wanted or x.rank != 4:
            raise ShapeError(f"transformed weights {list(u.shape)} do not fit {list(x.shape)}, which requires {wanted}")
        sizes = window_sizes(x.shape[2:], (3, 3), _ONES, _ONES, self.pads)
        return (x.with_shape((x.shape[0], self.outputs, *sizes)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, u = inputs[:2]
        w = original_weights(u, self.outputs, x.shape[1]).astype(np.result_type(u, np.float32))
        return Convolution(_ONES, _ONES, self.pads).reference(x, w, *inputs[2:])

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 18.0 * outputs[0].count * inputs[0].shape[1]
