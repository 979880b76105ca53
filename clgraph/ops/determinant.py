"""Determinants of square matrices: ONNX's Det."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive


@primitive
@frozen
class Determinant(Primitive):
    """The determinant of each matrix of x ``[..., M, M]``."""

    kind: ClassVar[str] = "determinant"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if x.rank < 2 or x.shape[-1] != x.shape[-2]:
            raise ShapeError(f"{list(x.shape)} are no square matrices")
        return (x.with_shape(x.shape[:-2]),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        exact = np.result_type(x.dtype, np.float32)
        return (np.asarray(np.linalg.det(x.astype(exact))).astype(x.dtype),)


@onnx("Det", since=(11, 22))
def import_det(node: OnnxNode) -> Primitive:
    return Determinant()
