"""Images of bytes as planes of floats: resized by taps, and every colour a weighted sum of theirs, in one walk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.image_taps import unpacked
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View

MOST_COLOURS = 4
DTYPES = frozenset({DType.U8, DType.F32})


@primitive
@frozen
class ImagePlanes(Primitive):
    """``y[n][c][i][j] = colours[c][K] + sum_k colours[c][k] r[n][i][j][k]``, with r the image resized.

    ``r[n][i][j] = padding + sum_a rows[i][a] sum_b columns[j][b] (x[n][row[i] + a][column[j] + b] - padding)``, no less
    than 0 and no more than 255: where all weights are 0 there is padding.

    Inputs: images x, U8 ``[N][H][W][K]``, of 1 to 4 colours K; taps, F32, of the rows and then of the columns of the
    result as :func:`~clgraph.ops.image_taps.packed` writes them; colours, F32 ``[C][K + 1]``. The result is F32
    ``[N][C][h][w]``.

    Attributes:
        shape: Rows and columns of the result.
        padding: What there is beside the image, in bytes.
    """

    shape: tuple[int, int]
    padding: float = 0.0

    kind: ClassVar[str] = "image_planes"
    exact_inputs: ClassVar[frozenset[int]] = frozenset(range(3))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, taps, colours = inputs
        if x.dtype != DType.U8 or x.rank != 4 or not 1 <= x.shape[3] <= MOST_COLOURS:
            raise ShapeError(f"images are u8 [count, rows, columns, colours], of 1 to {MOST_COLOURS} colours, not {x}")
        n, _, _, depth = x.shape
        if colours.rank != 2 or not 1 <= colours.shape[0] <= MOST_COLOURS or colours.shape[1] != depth + 1:
            raise ShapeError(f"{colours} are no weights of {depth} colours and a number for at most {MOST_COLOURS}")
        if taps.rank != 1 or taps.count < 2 + 2 * sum(self.shape) or {taps.dtype, colours.dtype} != {DType.F32}:
            raise ShapeError(f"{taps} are no taps of {self.shape[0]} rows and {self.shape[1]} columns")
        return (Layout(DType.F32, (n, colours.shape[0], *self.shape)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, taps, colours = inputs
        exact = np.result_type(taps.dtype, np.float32)
        known = x.astype(exact) - exact.type(self.padding)
        rows, columns = unpacked(taps, self.shape)
        found = _summed(_summed(known, *rows, 1), *columns, 2) + exact.type(self.padding)
        y = found.clip(0, 255) @ colours[:, :-1].T.astype(exact) + colours[:, -1].astype(exact)
        return (np.ascontiguousarray(np.moveaxis(y, 3, 1)),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        x, taps, _ = inputs
        n, c, h, w = outputs[0].shape
        each = self.most_taps(taps)
        return 2.0 * n * x.shape[3] * (h * x.shape[2] * each + h * w * (each + c))

    def most_taps(self, taps: Layout) -> int:
        """Return about how many taps a pixel has along an axis, as the size of all *taps* tells it."""
        return max(1, round(taps.count / max(1, sum(self.shape))) - 1)


def _summed(x: Array, first: Array, weights: Array, axis: int) -> Array:
    """Return the weighted sums of neighbours of x along *axis*."""
    shape = [-1 if a == axis else 1 for a in range(x.ndim)]
    parts = (
        x.take(first + tap, axis) * weights[:, tap].reshape(shape).astype(x.dtype) for tap in range(weights.shape[1])
    )
    total: Array = next(parts)
    for part in parts:
        total = total + part
    return total


@implements(ImagePlanes, name="image_planes.ref", serves=Serves(dtypes=DTYPES, mixed=True), general=True)
class ImagePlanesRef(General[ImagePlanes]):
    """One work-item a pixel of the result."""

    @classmethod
    def further_limits(cls, q: Query[ImagePlanes]) -> str | None:
        return None if all(x.is_dense_plain for x in q.own[1:]) else "requires taps and colours side by side"

    @classmethod
    def plan(cls, q: Query[ImagePlanes]) -> Plan:
        (x, _, _), (y,) = q.own, q.outputs
        n, c, h, w = y.shape
        numbers = table((h, w, c, x.shape[3]), View.of(x), View.of(y))
        inputs = ("in0", "in1", "in2", "out0")
        step = launch("image_planes/image_planes_ref", Jit(), n * h * w, *inputs, numbers, float(q.primitive.padding))
        return Plan((step,))
