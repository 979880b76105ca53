"""Support vector machines that compute a number: ai.onnx.ml's SVMRegressor, host and CPUs.

Kernels of distances are computed in doubles: in float32 the difference of large squares is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ModelError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.post_transform import post_transform_of
from clgraph.ops.reorder import Reorder
from clgraph.ops.support_vectors import (
    PACKED,
    WHOLE_POWERS,
    KernelFunction,
    checked_rows,
    floats,
    in_blocks,
    kernel_of,
    packed,
    table,
)


@primitive
@frozen
class SupportVectorRegressor(Primitive):
    """``y = k(x, v) @ w + rho`` of x ``[rows, features]``, float32 ``[rows, 1]``; without vectors ``y = x @ w + rho``.

    Inputs: x, v ``[vectors, features]``, w, and both packed for devices (``PACKED``).

    Attributes:
        one_class: The result is 1 where y is above 0, else -1.
    """

    function: str
    parameters: tuple[float, ...]
    rho: float
    one_class: bool = False

    kind: ClassVar[str] = "support_vector_regressor"
    slow_reference: ClassVar[bool] = True
    exact_inputs: ClassVar[frozenset[int]] = frozenset(range(PACKED + 1))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (Layout(DType.F32, (checked_rows(inputs[0], inputs[1].shape[1] or inputs[2].shape[0]), 1)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, vectors, weights = (a.astype(np.float64, copy=False) for a in inputs[:PACKED])
        kernel = KernelFunction(self.function, *self.parameters)
        (y,) = in_blocks(x, vectors, lambda rows: ((kernel.of(rows, vectors) if vectors.size else rows) @ weights,))
        y = y + self.rho
        if self.one_class:
            y = np.where(y > 0, 1, -1)
        return (y[:, np.newaxis].astype(np.float32),)


@primitive
@frozen
class SupportVectorProducts(Composite):
    """``y = f(x @ v.T + c) @ w.T + rho``, float32 ``[rows, 1]``, with numbers c; ``y = x @ w.T + rho`` without vectors.

    Inputs: x ``[rows, features]``, w ``[1, vectors]``, rho ``[1]``, v ``[vectors, features]``, c ``[vectors]``; of
    products that nothing is done with x, w ``[1, features]``, rho.

    Attributes:
        function: ``SIGMOID`` for tanh, ``POLY`` for a power, ``LINEAR`` for products.
    """

    function: str
    degree: float = 0.0

    kind: ClassVar[str] = "support_vector_products"

    def compose(self, c: Composition) -> Sequence[str]:
        x, weights, rho, *vectors = c.inputs
        checked_rows(c.layout(x), c.layout(vectors[0] if vectors else weights).shape[1])
        y, product = c.add(Reorder(DType.F32), x), MatMul(transpose_b=True, matrices=True)
        if vectors:
            y = c.add(product, y, *vectors)
        if self.function == "SIGMOID":
            y = c.add(Activation("tanh"), y)
        elif self.function == "POLY" and self.degree in WHOLE_POWERS:
            base = y
            for _ in range(int(self.degree) - 1):
                y = c.add(Eltwise("mul"), y, base)
        elif self.function == "POLY":
            y = c.add(Eltwise("pow"), y, c.constant(np.array(self.degree, np.float32)))
        return (c.add(product, y, weights, rho),)


@onnx("SVMRegressor", since=(1,), domain="ai.onnx.ml")
def import_svm_regressor(node: OnnxNode) -> Sequence[str]:
    count, weights = node.attribute("n_supports", 0), floats(node, "coefficients")
    vectors = table(floats(node, "support_vectors"), count, "support_vectors")
    if count and len(weights) != count:
        raise ModelError(f"{count} support vectors have {len(weights)} coefficients")
    function, parameters = kernel_of(node)
    rho = floats(node, "rho")
    if len(rho) != 1:
        raise ModelError(f"rho has {len(rho)} numbers, expected one")
    # Of the one number of a row no post_transform makes anything, as in ONNX Runtime.
    post_transform_of(node)
    of = SupportVectorRegressor(function, parameters, float(rho[0]), bool(node.attribute("one_class", 0)))
    if not of.one_class and (function != "RBF" or not count):
        return _emit_products(node, KernelFunction(function, *parameters), vectors, weights, rho)
    # As the host computes with them, so that no run converts them.
    wide = (array.astype(np.float64) for array in (vectors, weights))
    return node.emit(of, node.inputs[0], *map(node.literal, (*wide, packed(vectors, weights.reshape(1, -1)))))


def _emit_products(node: OnnxNode, kernel: KernelFunction, vectors: Array, weights: Array, rho: Array) -> Sequence[str]:
    exact = vectors.astype(np.float64)
    if kernel.function == "LINEAR" or not len(vectors):
        # Sums of products with vectors are products with the sum of them.
        summed = weights.astype(np.float64) @ exact if len(vectors) else weights
        one = node.literal(summed.astype(np.float32).reshape(1, -1))
        return node.emit(SupportVectorProducts("LINEAR"), node.inputs[0], one, node.literal(rho))
    scaled, added = (kernel.gamma * exact).astype(np.float32), np.full(len(vectors), kernel.coefficient, np.float32)
    given = weights.reshape(1, -1), rho, scaled, added
    of = SupportVectorProducts(kernel.function, kernel.degree)
    return node.emit(of, node.inputs[0], *map(node.literal, given))
