"""Boxes that no better one of their class covers: ONNX's NonMaxSuppression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, DataDependent, primitive
from clgraph.ops.box_suppression import BoxSuppression


@primitive
@frozen
class NonMaxSuppression(DataDependent):
    """Rows (batch, class, box), int64, of the boxes kept, for each batch and class the best first.

    Input: what a :class:`BoxSuppression` has found, ``[N, C, K]``.
    """

    kind: ClassVar[str] = "non_max_suppression"
    warns: ClassVar[bool] = False

    def outline(self, ranks: Sequence[int | None]) -> tuple[DType, tuple[int | None, ...]] | None:
        return DType.I64, (None, 3)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (places,) = inputs
        if places.shape[:2] == (1, 1):  # those kept stand in front
            line = places[0, 0]
            count = len(line) if not len(line) or line[end := line.argmin()] >= 0 else end
            rows = np.zeros((count, 3), np.int64)
            rows[:, 2] = line[: len(rows)]
            return (rows,)
        line = places.reshape(-1)
        (kept,) = (line >= 0).nonzero()
        rows = np.zeros((len(kept), 3), np.int64)
        rows[:, 2] = line[kept]
        np.floor_divide(kept, places.shape[2], rows[:, 1])
        if len(places) > 1:
            np.divmod(rows[:, 1], places.shape[1], rows[:, 0], rows[:, 1])
        return (rows,)


@onnx("NonMaxSuppression", since=(10, 11))
def import_non_max_suppression(node: OnnxNode) -> Sequence[str]:
    boxes, scores, *given = node.inputs
    absent: tuple[Array, ...] = (np.zeros(1, np.int64), np.zeros(1, np.float32), np.full(1, -np.inf, np.float32))
    numbers = [given[i] if i < len(given) and given[i] else node.literal(value) for i, value in enumerate(absent)]
    limit = node.constant(2) if any(given[:1]) else absent[0]
    most = None if limit is None or not limit.size else max(0, int(np.ravel(limit)[0]))
    found = node.emit(BoxSuppression(bool(node.attribute("center_point_box", 0)), most), boxes, scores, *numbers)
    return node.emit(NonMaxSuppression(), *found)
