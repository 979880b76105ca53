"""Indices of the elements that are not zero: ONNX's NonZero."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, DataDependent, Primitive, primitive


@primitive
@frozen
class NonZero(DataDependent):
    """``y[axis][i]`` is the place along *axis* of the i-th element of x that is not zero, in row-major order; int64.

    A scalar counts as a vector.
    """

    kind: ClassVar[str] = "non_zero"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (np.array(np.nonzero(np.atleast_1d(x)), np.int64),)


@onnx("NonZero", since=(9, 13))
def import_non_zero(node: OnnxNode) -> Primitive:
    return NonZero()
