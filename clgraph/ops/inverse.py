"""Inverses of square matrices: ONNX Runtime's Inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive


@primitive
@frozen
class Inverse(Primitive):
    """The inverse of each matrix of x ``[..., M, M]``, NaN for one that has none."""

    kind: ClassVar[str] = "inverse"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if x.rank < 2 or x.shape[-1] != x.shape[-2] or not x.dtype.floating:
            raise ShapeError(f"{x} is not a tensor of square matrices of floats")
        return (x.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        exact = np.result_type(x.dtype, np.float32)
        inverses = [_inverse(matrix) for matrix in x.astype(exact).reshape(-1, *x.shape[-2:])]
        return (np.array(inverses, x.dtype).reshape(x.shape),)


def _inverse(matrix: Array) -> Array:
    """Return the inverse, NaN where there is none."""
    try:
        return np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


@onnx("Inverse", since=(1,), domain=MICROSOFT)
def import_inverse(node: OnnxNode) -> Primitive:
    return Inverse()
