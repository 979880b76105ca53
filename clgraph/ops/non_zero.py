"""Indices of the elements that are not zero: ONNX's NonZero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, DataDependent, Primitive, primitive

_FEW = 1 << 8
"""Elements that NumPy searches along several axes in less time than several calls take."""


@primitive
@frozen
class NonZero(DataDependent):
    """``y[axis][i]`` is the place along *axis* of the i-th element of x that is not zero, in row-major order; int64.

    A scalar counts as a vector.
    """

    kind: ClassVar[str] = "non_zero"
    warns: ClassVar[bool] = False

    def outline(self, ranks: Sequence[int | None]) -> tuple[DType, tuple[int | None, ...]] | None:
        return None if ranks[0] is None else (DType.I64, (max(1, ranks[0]), None))

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        # NumPy's nonzero of bytes is several times faster than that of numbers along several axes.
        (x,) = inputs
        if x.size < _FEW and x.ndim:
            return (np.array(x.nonzero(), np.int64),)
        (left,) = (x.reshape(-1) if x.dtype == np.bool_ else x.reshape(-1) != 0).nonzero()
        if x.ndim < 2:
            return (left.astype(np.int64, copy=False)[np.newaxis],)
        found = np.empty((x.ndim, len(left)), np.int64)
        for axis in range(len(found) - 1, 0, -1):
            above = left // x.shape[axis]
            np.subtract(left, above * x.shape[axis], out=found[axis])
            left = above
        found[0] = left
        return (found,)


@onnx("NonZero", since=(9, 13))
def import_non_zero(node: OnnxNode) -> Primitive:
    return NonZero()
