"""The upper or lower triangle of matrices: ONNX's Trilu; and the identity: EyeLike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known_ints
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.band_mask import distances, matrix_of
from clgraph.ops.where import Where


@primitive
@frozen
class Triangle(Composite):
    """x ``[..., M, N]`` with zeros below (*upper*) or above its k-th diagonal.

    Attributes:
        reads: ``("k",)`` where the diagonal is input 1, else 0.
    """

    upper: bool = True
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "triangle"

    def compose(self, c: Composition) -> Sequence[str]:
        x = c.inputs[0]
        shape, dtype = c.layout(x).shape, c.layout(x).dtype.numpy
        if len(shape) < 2:
            raise ShapeError(f"a triangle is of matrices, not of {list(shape)}")
        k = known_ints(c.values, 1, "diagonal")[0] if self.reads else 0
        right = distances(*shape[-2:])
        inside = matrix_of(right >= k if self.upper else right <= k, shape[-1])
        return (c.add(Where(), c.constant(inside), x, c.constant(np.zeros((), dtype))),)


@primitive
@frozen
class EyeLike(Primitive):
    """A matrix of the shape of x with ones on the diagonal *k*.

    Attributes:
        dtype: Of the result; that of x when ``None``.
    """

    k: int = 0
    dtype: DType | None = None

    kind: ClassVar[str] = "eye_like"
    shapes_only: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if x.rank != 2:
            raise ShapeError(f"a diagonal is of a matrix, not of {list(x.shape)}")
        return (Layout(self.dtype or x.dtype, x.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (self._matrix(x.shape, x.dtype if self.dtype is None else self.dtype.numpy),)

    def evaluate(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> tuple[Array, ...] | None:
        (out,) = self.infer(inputs)
        return (self._matrix(out.shape, out.dtype.numpy),)

    def _matrix(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        rows, columns = shape
        return np.eye(rows, columns, self.k, dtype)


@onnx("Trilu", since=(1,), domain=MICROSOFT)
@onnx("Trilu", since=(14,))
def import_trilu(node: OnnxNode) -> Primitive:
    return Triangle(bool(node.attribute("upper", 1)), ("k",) if len(node.inputs) > 1 else ())


@onnx("EyeLike", since=(9, 22))
def import_eye_like(node: OnnxNode) -> Primitive:
    dtype = node.attribute("dtype", DType.F32) if node.attribute("dtype", None) is not None else None
    return EyeLike(node.attribute("k", 0), dtype)
