"""The cheapest way through a matrix: ONNX Runtime's DynamicTimeWarping, by which Whisper tells when words are said."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, DataDependent, Primitive, primitive


@primitive
@frozen
class DynamicTimeWarping(DataDependent):
    """Rows and columns ``[2, steps]`` (int32) of the way of least cost through x ``[M, N]`` or ``[1, M, N]``.

    It goes from the first corner to the last, each step one row down, one column on, or both (Sakoe and Chiba 1978).
    Down or both is taken where it costs less than each other one; else on.
    """

    kind: ClassVar[str] = "dynamic_time_warping"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        cost = x[0] if x.ndim == 3 and len(x) == 1 else x
        if cost.ndim != 2 or not cost.size:
            raise ShapeError(f"{list(x.shape)} is not a matrix of costs")
        steps = _steps(cost)
        row, column = (n - 1 for n in cost.shape)
        way = []
        while row >= 0 and column >= 0:
            way.append((row, column))
            step = steps[row, column]
            row, column = row - (step != _ON), column - (step != _DOWN)
        return (np.array(way[::-1], np.int32).T,)


_BOTH, _DOWN, _ON = range(3)


def _steps(cost: Array) -> Array:
    """Return by which step each place is reached, a row after the other.

    Along a row the cheapest way depends on the place before: that loop is over Python's floats.
    """
    rows, columns = cost.shape
    steps = np.empty(cost.shape, np.int8)
    above = np.full(columns + 1, np.inf, np.float32)
    above[0] = 0
    for row in range(rows):
        both, down = above[:-1], above[1:]
        other = np.where(both < down, _BOTH, _DOWN).tolist()
        best = np.where(both == down, np.float32(np.inf), np.minimum(both, down)).tolist()
        own, made, here = cost[row].tolist(), [], [float("inf")]
        for column in range(columns):
            further = best[column] < here[-1]
            made.append(other[column] if further else _ON)
            here.append(float(np.float32((best[column] if further else here[-1]) + own[column])))
        steps[row], above = made, np.array(here, np.float32)
    return steps


@onnx("DynamicTimeWarping", since=(1,), domain=MICROSOFT)
def import_dynamic_time_warping(node: OnnxNode) -> Primitive:
    return DynamicTimeWarping()
