"""Matrix products with transposes, a factor and an activation: what ONNX Runtime fuses MatMul and Gemm to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.activation import Activation
from clgraph.ops.matmul import MatMul, import_gemm
from clgraph.ops.microsoft.activation import emit_activation
from clgraph.ops.softmax import Softmax
from clgraph.ops.transpose import Transpose


@primitive
@frozen
class RowsToMatrix(Composite):
    """x ``[M, *batch, K]`` as ``[*batch, M, K]``."""

    kind: ClassVar[str] = "rows_to_matrix"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        rank = c.layout(x).rank
        if rank < 3:
            raise ShapeError(f"{list(c.layout(x).shape)} has no batch to move in front of the matrix")
        return (c.add(Transpose((*range(1, rank - 1), 0, rank - 1)), x),)


@onnx("FusedMatMul", since=(1,), domain=MICROSOFT)
@onnx("TransposeMatMul", since=(1,), domain=MICROSOFT)
def import_fused_matmul(node: OnnxNode) -> Sequence[str]:
    a, b = (
        node.emit(RowsToMatrix(), x)[0] if node.attribute(f"transBatch{side}", 0) else x
        for side, x in zip("AB", node.inputs, strict=True)
    )
    y = node.emit(MatMul(bool(node.attribute("transA", 0)), bool(node.attribute("transB", 0))), a, b)
    alpha = node.attribute("alpha", 1.0)
    return y if alpha == 1 else node.emit(Activation("linear", alpha), *y)


@onnx("SparseToDenseMatMul", since=(1,), domain=MICROSOFT)
def import_sparse_to_dense_matmul(node: OnnxNode) -> Sequence[str]:
    """Read the product of a sparse matrix, which is held as a dense one."""
    return import_fused_matmul(node)


@onnx("FusedMatMulActivation", since=(1,), domain=MICROSOFT)
def import_fused_matmul_activation(node: OnnxNode) -> Sequence[str]:
    (y,) = import_fused_matmul(node)
    if node.attribute("activation", "") == "Softmax":
        return node.emit(Softmax((node.attribute("activation_axis", -1),)), y)
    return _activated(node, y)


@onnx("FusedGemm", since=(1,), domain=MICROSOFT)
def import_fused_gemm(node: OnnxNode) -> Sequence[str]:
    return _activated(node, *import_gemm(node))


def _activated(node: OnnxNode, y: str) -> tuple[str, ...]:
    name = node.attribute("activation", "")
    named = ("alpha", "gamma" if name == "Selu" else "beta")
    return emit_activation(node, name, [node.attribute(f"activation_{n}", None) for n in named], y)
