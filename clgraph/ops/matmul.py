"""Products of matrices, batched, with an optional bias; ONNX's Gemm too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import ShapeError
from clgraph.graph.broadcasting import broadcast, broadcasts_to
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.general import (
    INTEGERS,
    REALS,
    General,
    float_jit,
    launch,
    post_arguments,
    post_views,
    table,
)
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class MatMul(Primitive):
    """``y = a @ b + bias`` over the last two axes, the others broadcast; a vector is a row (a) or a column (b).

    Inputs: a ``[..., M, K]``, b ``[..., K, N]``, optional bias that broadcasts to the result.

    Attributes:
        transpose_a, transpose_b: Whether a is stored ``[..., K, M]``, b ``[..., N, K]``.
        matrices: Before ``bind``: a and b must be matrices, as for ONNX's Gemm.
    """

    transpose_a: bool = False
    transpose_b: bool = False
    matrices: bool = False

    kind: ClassVar[str] = "matmul"
    holds_sizes: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = True

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        if self.matrices and any(x.rank != 2 for x in inputs[:2]):
            raise ShapeError(f"Gemm requires two matrices, not {list(inputs[0].shape)} and {list(inputs[1].shape)}")
        return Bound(replace(self, matrices=False), tuple(range(len(inputs))))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        a, b = inputs[:2]
        if not a.rank or not b.rank:
            raise ShapeError("a matrix product requires at least one axis, not a scalar")
        batch, m, _, n = self.sizes(a.shape, b.shape)
        shape = (*batch, *((m,) if a.rank > 1 else ()), *((n,) if b.rank > 1 else ()))
        if len(inputs) > 2 and not broadcasts_to(inputs[2].shape, shape):
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
        y = np.asarray(np.matmul(left.astype(exact), right.astype(exact)))
        if len(inputs) > 2:
            y += inputs[2].astype(exact)  # in place, which refuses what does not broadcast to it
        return (y.astype(a.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 2.0 * outputs[0].count * self.sizes(inputs[0].shape, inputs[1].shape)[2]


@onnx("MatMul", since=(1, 9, 13))
def import_matmul(node: OnnxNode) -> Primitive:
    return MatMul()


@onnx("Gemm", since=(1, 6, 7, 9, 11, 13))
def import_gemm(node: OnnxNode) -> Sequence[str]:
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    product = MatMul(bool(node.attribute("transA", 0)), bool(node.attribute("transB", 0)), matrices=True)
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


@implements(MatMul, name="matmul.ref", serves=Serves(dtypes=REALS, fuses=FUSABLE), general=True)
class MatMulRef(General[MatMul]):
    """One work-item an output element, any rank, any batch."""

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        p = matrix_product(q)
        s = space(p.dims, [p.y, p.a, p.b, p.bias, *p.posts])
        numbers = table(s.dims, *s.views[:4], [p.k, p.a_pitch, p.b_pitch, int(q.arity > 2)])
        bias = q.role(2)
        posts = post_arguments(q, s.views[4:], len(s.dims))
        jit = float_jit(q.outputs[0].dtype, len(s.dims))
        return Plan((launch("matmul/matmul_ref", jit, s.counts[0], "in0", "in1", bias, "out0", numbers, *posts),))


@implements(MatMul, name="matmul.int_ref", serves=Serves(dtypes=INTEGERS), general=True)
class MatMulIntRef(General[MatMul]):
    """One work-item an output element, any rank, any batch, on integers."""

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        p = matrix_product(q)
        s = space(p.dims, [p.y, p.a, p.b, p.bias])
        numbers = table(s.dims, *s.views, [p.k, p.a_pitch, p.b_pitch, int(q.arity > 2)])
        bias = q.role(2)
        jit = Jit().define(RANK=len(s.dims), T=q.outputs[0].dtype)
        return Plan((launch("matmul/matmul_int_ref", jit, s.counts[0], "in0", "in1", bias, "out0", numbers),))


@frozen
class MatrixProduct:
    """A matrix product as views on (batch…, M, N), with the pitches of a and b along K.

    Attributes:
        posts: Views of the operands of fused operations.
    """

    dims: tuple[int, ...]
    k: int
    y: View
    a: View
    b: View
    bias: View
    a_pitch: int
    b_pitch: int
    posts: tuple[View, ...]


def matrix_product(q: Query[MatMul]) -> MatrixProduct:
    """Return the matrix product of the query *q*; vectors get an axis of size 1."""
    (y,), a, b = q.outputs, q.own[0], q.own[1]
    batch, m, k, n = q.primitive.sizes(a.shape, b.shape)
    vector_a, vector_b = a.rank == 1, b.rank == 1

    def wide(view: View) -> View:
        """Return a view on y as one on (batch, M, N)."""
        at = list(view.pitches)
        if vector_a:
            at.insert(len(batch), 0)
        return View(view.origin, (*at, 0) if vector_b else tuple(at))

    pitches_a = (0, *a.all_pitches) if vector_a else a.all_pitches
    pitches_b = (*b.all_pitches, 0) if vector_b else b.all_pitches
    m_a, k_a = (-1, -2) if q.primitive.transpose_a and not vector_a else (-2, -1)
    k_b, n_b = (-1, -2) if q.primitive.transpose_b and not vector_b else (-2, -1)
    outer_a, outer_b = (_broadcast(x, p, batch) for x, p in ((a, pitches_a), (b, pitches_b)))
    bias = View.of(q.own[2], y.shape) if q.arity > 2 else View(0, (0,) * y.rank)
    return MatrixProduct(
        (*batch, m, n),
        k,
        wide(View.of(y)),
        View(a.origin, (*outer_a, pitches_a[m_a], 0)),
        View(b.origin, (*outer_b, 0, pitches_b[n_b])),
        wide(bias),
        pitches_a[k_a],
        pitches_b[k_b],
        tuple(wide(v) for v in post_views(q)),
    )


def _broadcast(layout: Layout, pitches: Sequence[int], batch: Shape) -> tuple[int, ...]:
    """Return the pitches of the axes before the matrix, 0 where they are broadcast."""
    own = pitches[:-2]
    sizes = layout.shape[: len(own)]
    found = tuple(
        0 if d == 1 and n != 1 else p for d, p, n in zip(sizes, own, batch[len(batch) - len(own) :], strict=True)
    )
    return (0,) * (len(batch) - len(own)) + found
