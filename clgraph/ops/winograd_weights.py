"""Weights of 3x3 convolutions, transformed and packed for Winograd's F(4x4, 3x3), or F(2x2, 3x3) for stride 2."""

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
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View

LANES = 16
"""Output channels of a block, and what their number of inputs is filled up to a multiple of."""
POSITIONS = 36
"""Of a transformed 6x6 tile."""
STRIDED_POSITIONS = 25
"""Of a transformed 5x5 tile, for stride 2."""

_POINTS = (0.0, 0.75, -0.75, 1.5, -1.5)


def positions_of(stride: int) -> int:
    """Return the positions of a transformed tile of a convolution of that *stride*, 1 or 2."""
    return POSITIONS if stride == 1 else STRIDED_POSITIONS


def weight_matrix(stride: int = 1) -> Array:
    """Return G ``[6][3]`` in float64: row j is (1, p, p^2) over the product of p - q for the other points q.

    With stride 2 it is ``[5][3]``: F(2, 2) with the points 0, 1 and infinity of the weights under even pixels, and
    twice that under odd ones.
    """
    if stride == 2:
        return np.array([[1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    rows = [[p**k / np.prod([p - q for q in _POINTS if q != p]) for k in range(3)] for p in _POINTS]
    return np.array([*rows, [0.0, 0.0, 1.0]])


@primitive
@frozen
class WinogradWeights(Primitive):
    """``y[group, position, c, lane] = (G w[o, c] G^T)[position]`` for ``o = group * 16 * vectors + lane``.

    Input: w ``[O, C, 3, 3]``. Output ``[groups, 36, C filled up to a multiple of 16, 16 * vectors]``, zeros where
    channels do not exist; without vectors ``y[position, o, c]``. There are 25 positions with stride 2. Computed in
    float64, where there is one, and rounded once.

    Attributes:
        vectors: Blocks of 16 output channels in a group; 0: channels are not blocked.
        stride: Of the convolution, 1 or 2.
    """

    vectors: int = 1
    stride: int = 1

    kind: ClassVar[str] = "winograd_weights"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (w,) = inputs
        if w.rank != 4 or w.shape[2:] != (3, 3):
            raise ShapeError(f"Winograd's F(4x4, 3x3) requires weights [O,C,3,3], not {list(w.shape)}")
        positions = positions_of(self.stride)
        if not self.vectors:
            return (w.with_shape((positions, *w.shape[:2])),)
        lanes = LANES * self.vectors
        return (w.with_shape((-(-w.shape[0] // lanes), positions, -(-w.shape[1] // LANES) * LANES, lanes)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (w,), g = inputs, weight_matrix(self.stride)
        positions = len(g) ** 2
        if not self.vectors:
            plain = (g @ w.astype(np.float64) @ g.T).reshape(*w.shape[:2], positions)
            return (np.ascontiguousarray(plain.transpose(2, 0, 1)).astype(w.dtype),)
        groups, _, channels, lanes = self.infer([Layout.of(w)])[0].shape
        padded = np.zeros((groups * lanes, channels, 3, 3))
        padded[: w.shape[0], : w.shape[1]] = w
        u = (g @ padded @ g.T).reshape(groups, lanes, channels, positions)
        return (np.ascontiguousarray(u.transpose(0, 3, 2, 1)).astype(w.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 5.0 * outputs[0].count


def original_weights(u: Array, outputs: int, channels: int, stride: int = 1) -> Array:
    """Return the weights ``[outputs][channels][3][3]`` that *u* was made of, in float64."""
    if u.ndim == 3:
        u = u.transpose(0, 2, 1)[None]
    groups, _, padded, lanes = u.shape
    g = weight_matrix(stride)
    tiles = u.astype(np.float64).transpose(0, 3, 2, 1).reshape(groups * lanes, padded, len(g), len(g))
    inverse = np.linalg.pinv(g)
    return np.asarray(inverse @ tiles[:outputs, :channels] @ inverse.T)


@implements(
    WinogradWeights,
    name="winograd_weights.ref",
    serves=Serves(dtypes=frozenset({DType.F32}), formats=True),
    general=True,
)
class WinogradWeightsRef(General[WinogradWeights]):
    """A filter a work-item, in double where the device has it; on any device."""

    @classmethod
    def further_limits(cls, q: Query[WinogradWeights]) -> str | None:
        if q.primitive.stride != 1:
            return "transforms for convolutions without stride"
        return "makes no blocks of channels" if q.primitive.vectors else None

    @classmethod
    def plan(cls, q: Query[WinogradWeights]) -> Plan:
        w, (u,) = q.inputs[0], q.outputs
        numbers = table(w.shape[:2], View.of(w), View.of(u))
        step = launch("winograd_weights/winograd_weights_ref", Jit(), prod(w.shape[:2]), "in0", "out0", numbers)
        return Plan((step,))
