"""Boxes that no better one of their class covers, in as many places as there may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

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

BLOCKS = (32, 256)
"""Candidates that the reference compares with one another at once, least and most; between, half of what is kept."""


@primitive
@frozen
class BoxSuppression(Primitive):
    """Places of the boxes kept, best first and -1 behind the last: int32 ``[N, C, K]``.

    Inputs: boxes ``[N, B, 4]``, scores ``[N, C, B]``, then the most boxes of a batch and class (int64), the share of
    the union above which two boxes overlap, and the score that a box must be above: of tensors with several elements
    the first, as in ONNX Runtime.

    Attributes:
        centered: A box is (x, y, width, height) with its centre, not two opposite corners (y, x, y, x).
        most: K where that is less than B: the most boxes that are ever asked for.
    """

    centered: bool = False
    most: int | None = None

    kind: ClassVar[str] = "box_suppression"
    holds_sizes: ClassVar[bool] = False
    warns: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        boxes, scores, *numbers = inputs
        fits = boxes.rank == scores.rank == 3 and boxes.shape[0] == scores.shape[0]
        if not fits or boxes.shape[2] != 4 or boxes.shape[1] != scores.shape[2]:
            raise ShapeError(f"boxes {list(boxes.shape)} and scores {list(scores.shape)} want [N,B,4] and [N,C,B]")
        if any(number.count < 1 for number in numbers):
            raise ShapeError("limit, overlap and least score are one number each, and one of them is empty")
        count = boxes.shape[1] if self.most is None else min(boxes.shape[1], self.most)
        return (Layout(DType.I32, (*scores.shape[:2], count)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):  # of boxes that are not finite
            return (self._found(*inputs),)

    def _found(self, boxes: Array, scores: Array, *numbers: Array) -> Array:
        limit, overlap, least = (np.ravel(number)[0] for number in numbers)
        (layout,) = self.infer([Layout.of(a) for a in (boxes, scores, *numbers)])
        made = np.full(layout.shape, -1, np.int32)
        most = min(int(limit), layout.shape[2])
        if most <= 0:
            return made
        above = scores > least
        for n in range(len(boxes)):
            corners = self._corners(boxes[n])
            for c in np.flatnonzero(above[n].any(axis=1)):
                candidates = np.flatnonzero(above[n, c])
                order = candidates[np.argsort(-scores[n, c, candidates], kind="stable")]
                kept = _greedy(corners[:, order], most, overlap)
                made[n, c, : len(kept)] = order[kept]
        return made

    def _corners(self, boxes: Array) -> Array:
        """Return the boxes as [4][B]: lower and upper first, lower and upper second coordinate."""
        a, b, c, d = boxes.T
        if self.centered:
            return np.stack([a - c / 2, a + c / 2, b - d / 2, b + d / 2])
        return np.stack([np.minimum(a, c), np.maximum(a, c), np.minimum(b, d), np.maximum(b, d)])

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 32.0 * inputs[1].count

    def reference_seconds(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        images, classes, boxes = inputs[1].shape
        return images * classes * (2e-5 + 3e-5 * -(-boxes // BLOCKS[0]))


def _greedy(corners: Array, limit: int, overlap: np.floating[Any]) -> list[int]:
    """Return the places of the boxes, best first, that none of those kept before overlaps.

    A block of candidates at a time: what is kept already strikes out some, then they strike out one another, each with
    a row of bits.
    """
    sides = corners[1::2] - corners[::2]
    boxes = (corners[::2], corners[1::2], sides[0] * sides[1])
    kept: list[int] = []
    start, block = 0, BLOCKS[0]
    while start < corners.shape[1]:
        places = np.arange(start, min(start + block, corners.shape[1]))
        if kept:
            places = places[~_overlaps(boxes, kept, places, overlap).any(axis=0)]
        bits = np.packbits(_overlaps(boxes, places, places, overlap), axis=1, bitorder="little")
        rows, width, names = bits.tobytes(), bits.shape[1], places.tolist()
        left = (1 << len(names)) - 1
        while left:
            i = (left & -left).bit_length() - 1
            kept.append(names[i])
            if len(kept) == limit:
                return kept
            left &= ~(int.from_bytes(rows[i * width : (i + 1) * width], "little") | 1 << i)
        start, block = start + block, min(max(len(kept) // 2, BLOCKS[0]), BLOCKS[1])
    return kept


def _overlaps(
    boxes: tuple[Array, Array, Array], first: Sequence[int] | Array, second: Array, overlap: np.floating[Any]
) -> Array:
    """Return whether each of the *first* boxes shares more than *overlap* of the union with each *second*: [n][m].

    Args:
        boxes: Lower coordinates [2][B], upper ones, areas [B].
    """
    low, high, areas = boxes
    # One coordinate after the other: with both in one array NumPy takes three to five times as long.
    shared, other = (_shared(x, y, first, second) for x, y in zip(low, high, strict=True))
    shared *= other
    union = np.add(areas[first][:, None], areas[second], out=other)
    union -= shared
    union *= overlap
    return np.asarray((shared > 0) & (shared > union))


def _shared(low: Array, high: Array, first: Sequence[int] | Array, second: Array) -> Array:
    """Return how much of one coordinate each of the *first* boxes shares with each *second*: [n][m]."""
    shared = np.asarray(np.minimum(high[first][:, None], high[second]))
    shared -= np.maximum(low[first][:, None], low[second])
    np.maximum(shared, 0, out=shared)
    return shared


SERVED = frozenset({DType.F32, DType.I32, DType.I64})
"""Types of kernels' inputs and result."""


def types_refusal(q: Query[BoxSuppression]) -> str | None:
    """Return why kernels do not take inputs of these types, or ``None``."""
    wanted = (DType.F32, DType.F32, DType.I64, DType.F32, DType.F32)
    fits = tuple(v.dtype for v in q.inputs) == wanted
    return None if fits else "requires floats, and a limit of int64"


@implements(BoxSuppression, name="box_suppression.ref", serves=Serves(dtypes=SERVED, mixed=True), general=True)
class BoxSuppressionRef(General[BoxSuppression]):
    """One work-item an image and class: a heap of the candidates, and the corners of those kept, sixteen at a time."""

    @classmethod
    def further_limits(cls, q: Query[BoxSuppression]) -> str | None:
        return types_refusal(q)

    @classmethod
    def plan(cls, q: Query[BoxSuppression]) -> Plan:
        (boxes, scores, *numbers), (y,) = q.inputs, q.outputs
        lines = scores.shape[0] * scores.shape[1] if y.count else 0
        views = [View.of(v) for v in (boxes, scores, y)]
        sizes = [scores.shape[1], scores.shape[2], y.shape[2], int(q.primitive.centered)]
        of = table([], *views, [v.origin for v in numbers], sizes)
        inputs = [f"in{i}" for i in range(5)]
        each = 8 * scores.shape[2] + 5 * 4 * (-(-y.shape[2] // 16) * 16)
        work = launch("box_suppression/box_suppression_ref", Jit(), lines, *inputs, "out0", "scratch0", of)
        return Plan((work,), (max(lines, 1) * each,))
