"""Products of matrices, batched, with an optional bias; ONNX's Gemm too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clgraph.core.layout import Layout, Shape
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, OnnxNode, Primitive, broadcast, onnx, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise


@primitive
@dataclass(frozen=True, slots=True)
class MatMul(Primitive):
    """``y = a @ b + bias`` over the last two axes, the others broadcast; a vector is a row (a) or a column (b).

    Inputs: a ``[..., M, K]``, b ``[..., K, N]``, optional bias that broadcasts to the result.

    Attributes:
        transpose_a, transpose_b: Whether a is stored ``[..., K, M]``, b ``[..., N, K]``.
    """

    transpose_a: bool = False
    transpose_b: bool = False

    kind: ClassVar[str] = "matmul"

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        a, b = inputs[:2]
        if not a.rank or not b.rank:
            raise ShapeError("a matrix product wants at least one axis, not a scalar")
        batch, m, _, n = self.sizes(a.shape, b.shape)
        shape = (*batch, *((m,) if a.rank > 1 else ()), *((n,) if b.rank > 1 else ()))
        if len(inputs) > 2 and broadcast(inputs[2].shape, shape) != shape:
            raise ShapeError(f"a bias {list(inputs[2].shape)} does not broadcast to {list(shape)}")
        return (a.with_shape(shape),)

    def sizes(self, a: Shape, b: Shape) -> tuple[Shape, int, int, int]:
        """Return (batch shape, M, K, N); raises ``ShapeError`` where the two do not fit."""
        rows = (1, *a) if len(a) == 1 else a
        columns = (*b, 1) if len(b) == 1 else b
        m, k = (rows[-1], rows[-2]) if self.transpose_a and len(a) > 1 else rows[-2:]
        k_b, n = (columns[-1], columns[-2]) if self.transpose_b and len(b) > 1 else columns[-2:]
        try:
            batch = broadcast(rows[:-2], columns[:-2])
        except ValueError as error:
            raise ShapeError(f"the batches of {list(a)} and {list(b)} do not broadcast") from error
        if k != k_b:
            raise ShapeError(f"{list(a)} has {k} columns, {list(b)} has {k_b} rows")
        return batch, m, k, n

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        a, b = inputs[:2]
        exact = np.result_type(a.dtype, np.float32) if a.dtype.kind == "f" else a.dtype
        left = a.swapaxes(-1, -2) if self.transpose_a and a.ndim > 1 else a
        right = b.swapaxes(-1, -2) if self.transpose_b and b.ndim > 1 else b
        y = np.matmul(left.astype(exact), right.astype(exact))
        if len(inputs) > 2:
            y = y + inputs[2].astype(exact)
        return (np.asarray(y).astype(a.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 2.0 * outputs[0].count * self.sizes(inputs[0].shape, inputs[1].shape)[2]


@onnx("MatMul", since=(1, 9, 13))
def import_matmul(node: OnnxNode) -> Primitive:
    return MatMul()


@onnx("Gemm", since=(7, 9, 11, 13))
def import_gemm(node: OnnxNode) -> Primitive | Sequence[str]:
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    product = MatMul(bool(node.attribute("transA", 0)), bool(node.attribute("transB", 0)))
    bias = node.inputs[2] if len(node.inputs) > 2 and beta else ""
    a, b = node.inputs[:2]
    if alpha == 1 and bias:
        if beta != 1:
            (bias,) = node.emit(Activation("linear", beta), bias)
        return node.emit(product, a, b, bias)
    (y,) = node.emit(product, a, b)
    if alpha != 1:
        (y,) = node.emit(Activation("linear", alpha), y)
    if bias and beta != 1:
        (bias,) = node.emit(Activation("linear", beta), bias)
    return node.emit(Eltwise("add"), y, bias) if bias else (y,)
