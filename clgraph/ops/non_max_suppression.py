"""Boxes that no better one of their class covers: ONNX's NonMaxSuppression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, DataDependent, primitive

BLOCKS = (32, 256)
"""Candidates that are compared with one another at once, least and most; between, half of what is kept."""


@primitive
@frozen
class NonMaxSuppression(DataDependent):
    """Rows (batch, class, box), int64, of the boxes kept: for each batch and class the best first.

    Inputs: boxes ``[N, B, 4]``, scores ``[N, C, B]``, then, one element each, the most boxes of a batch and class, the
    share of the union above which two boxes overlap, and the score that a box must be above.

    Attributes:
        centered: A box is (x, y, width, height) with its centre, not two opposite corners (y, x, y, x).
        limited, overlapping, scored: Which of the last three inputs there are; without them the limit is 0 boxes, any
            overlap suppresses, and every score counts.
    """

    centered: bool = False
    limited: bool = True
    overlapping: bool = True
    scored: bool = True

    kind: ClassVar[str] = "non_max_suppression"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        boxes, scores, *rest = inputs
        if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[2] != 4 or boxes.shape[1] != scores.shape[2]:
            raise ShapeError(f"boxes {list(boxes.shape)} and scores {list(scores.shape)} want [N,B,4] and [N,C,B]")
        left = iter(rest)
        limit = int(np.ravel(next(left))[0]) if self.limited else 0
        overlap = float(np.ravel(next(left))[0]) if self.overlapping else 0.0
        least = float(np.ravel(next(left))[0]) if self.scored else -np.inf
        if limit <= 0:
            return (np.zeros((0, 3), np.int64),)
        found = []
        for n in range(boxes.shape[0]):
            above = scores[n] > np.float32(least)
            corners = self._corners(boxes[n])
            for c in np.flatnonzero(above.any(axis=1)):
                candidates = np.flatnonzero(above[c])
                order = candidates[np.argsort(-scores[n, c, candidates], kind="stable")]
                kept = _greedy(corners[:, order], limit, overlap)
                found.append(np.stack([np.full(len(kept), n), np.full(len(kept), c), order[kept]], axis=1))
        return (np.concatenate(found).astype(np.int64) if found else np.zeros((0, 3), np.int64),)

    def _corners(self, boxes: Array) -> Array:
        """Return the boxes as [4][B]: lower and upper first, lower and upper second coordinate."""
        a, b, c, d = boxes.T
        if self.centered:
            return np.stack([a - c / 2, a + c / 2, b - d / 2, b + d / 2])
        return np.stack([np.minimum(a, c), np.maximum(a, c), np.minimum(b, d), np.maximum(b, d)])


def _greedy(corners: Array, limit: int, overlap: float) -> list[int]:
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
        struck = 0
        for i, (place, row) in enumerate(zip(places.tolist(), bits, strict=True)):
            if not struck >> i & 1:
                kept.append(place)
                if len(kept) == limit:
                    return kept
                struck |= int.from_bytes(row.tobytes(), "little")
        start, block = start + block, min(max(len(kept) // 2, BLOCKS[0]), BLOCKS[1])
    return kept


def _overlaps(boxes: tuple[Array, Array, Array], first: Sequence[int] | Array, second: Array, overlap: float) -> Array:
    """Return whether each of the *first* boxes shares more than *overlap* of the union with each *second*: [n][m].

    Args:
        boxes: Lower coordinates [2][B], upper ones, areas [B].
    """
    low, high, areas = boxes
    both = np.minimum(high[:, first, None], high[:, None, second])
    both -= np.maximum(low[:, first, None], low[:, None, second])
    np.maximum(both, 0, out=both)
    shared = both[0] * both[1]
    union = areas[first][:, None] + areas[second]
    union -= shared
    union *= np.float32(overlap)
    return np.asarray((shared > 0) & (shared > union))


@onnx("NonMaxSuppression", since=(10, 11))
def import_non_max_suppression(node: OnnxNode) -> Sequence[str]:
    given = [i < len(node.inputs) and bool(node.inputs[i]) for i in (2, 3, 4)]
    suppression = NonMaxSuppression(bool(node.attribute("center_point_box", 0)), *given)
    return node.emit(suppression, *filter(None, node.inputs))
