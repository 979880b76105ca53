"""Weights of 1x1 convolutions, added up and packed for one level of Strassen's algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, Primitive, primitive

LANES = 16
"""Output channels of a block."""
PRODUCTS = 7
"""Of halves of the channels, for the eight that there are."""


@primitive
@frozen
class StrassenWeights(Primitive):
    """Quarters of the weights and sums of them, as ``cl_kernels/strassen_weights/pack_strassen.cl`` says.

    Input: w ``[O, C, 1, 1]``. Output ``[groups, 7, C / 2, 16 * vectors]``, where a group has ``32 * vectors`` output
    channels. Computed in float64, where there is one, and rounded once.

    Attributes:
        vectors: Blocks of 16 output channels in half a group.
    """

    vectors: int = 1

    kind: ClassVar[str] = "strassen_weights"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (w,), group = inputs, 2 * LANES * self.vectors
        if w.rank != 4 or w.shape[2:] != (1, 1) or w.shape[0] % group or w.shape[1] % 2:
            raise ShapeError(f"requires weights [O,C,1,1] of a multiple of {group} by 2 channels, not {list(w.shape)}")
        return (w.with_shape((w.shape[0] // group, PRODUCTS, w.shape[1] // 2, LANES * self.vectors)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (w,) = inputs
        groups, _, half, lanes = self.infer([Layout.of(w)])[0].shape
        quarters = w.astype(np.float64).reshape(groups, 2, lanes, 2, half).transpose(3, 1, 0, 4, 2)
        (b11, b12), (b21, b22) = quarters
        t1, t2 = b12 - b11, b22 - (b12 - b11)
        packed = np.stack([b11, b21, t2, b22 - b12, b21 - t2, t1, b22], axis=1)
        return (np.ascontiguousarray(packed).astype(w.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 1.0 * outputs[0].count


def weights_of(u: Array) -> Array:
    """Return the weights ``[outputs][channels][1][1]`` that *u* was made of, in float64."""
    b11, b21, _, _, _, t1, b22 = np.moveaxis(u.astype(np.float64), 1, 0)
    quarters = np.array([[b11, b11 + t1], [b21, b22]])
    return quarters.transpose(2, 1, 4, 0, 3).reshape(u.shape[0] * 2 * u.shape[3], 2 * u.shape[2], 1, 1)
