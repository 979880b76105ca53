"""Linear models as matrix products: ai.onnx.ml's LinearRegressor and LinearClassifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ModelError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, primitive
from clgraph.ops.arg import ArgExtremum
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.post_transform import post_transform_of, transform
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.tree_ensemble import class_labels, label_of


@primitive
@frozen
class LinearRegressor(Composite):
    """``y = x @ w.T + b`` under *post_transform*, float32 ``[rows, targets]``.

    Inputs: x ``[rows, features]`` or ``[features]``, w ``[targets, features]``, b ``[targets]``. As in ONNX Runtime a
    single target is transformed by PROBIT only.
    """

    post_transform: str = "NONE"

    kind: ClassVar[str] = "linear_regressor"

    def compose(self, c: Composition) -> Sequence[str]:
        y = _products(c)
        single = c.layout(y).shape[1] == 1 and self.post_transform != "PROBIT"
        return (y if single else transform(c, y, self.post_transform),)


@primitive
@frozen
class LinearClassifier(Composite):
    """The place of the best class, int64 ``[rows]``, and the scores ``[rows, classes]`` of the products above.

    One product for two classes is the score of the second, which is better above 0.
    """

    post_transform: str = "NONE"

    kind: ClassVar[str] = "linear_classifier"

    def compose(self, c: Composition) -> Sequence[str]:
        y = _products(c)
        if (shape := c.layout(y).shape)[1] > 1:
            return c.add(ArgExtremum(False, 1, False, False), y), transform(c, y, self.post_transform)
        above = c.add(Eltwise("greater"), y, c.constant(np.zeros((), np.float32)))
        best = c.add(Reshape((shape[0],), zero_is_zero=True), c.add(Reorder(DType.I64), above))
        score = transform(c, y, self.post_transform) if self.post_transform in ("LOGISTIC", "PROBIT") else y
        rest = c.add(Eltwise("sub"), c.constant(np.ones((), np.float32)), score)
        return best, c.add(Concat(1), rest, score)


def _products(c: Composition) -> str:
    """Add the layers that compute ``x @ w.T + b``; return their result.

    Of weights for more features than x has the first are read, x's features a target, as by ONNX Runtime.
    """
    x, weights, bias = c.inputs
    shape = c.layout(x).shape
    targets, known = c.layout(weights).shape
    if shape[-1] < known:
        flat = c.add(Reshape((targets * known,), zero_is_zero=True), weights)
        read = c.add(Slice((0,), (targets * shape[-1],)), flat)
        weights = c.add(Reshape((targets, shape[-1]), zero_is_zero=True), read)
    x = c.add(Reorder(DType.F32), x)
    if len(shape) == 1:
        x = c.add(Reshape((1, *shape), zero_is_zero=True), x)
    return c.add(MatMul(transpose_b=True, matrices=True), x, weights, bias)


@onnx("LinearRegressor", since=(1,), domain="ai.onnx.ml")
def import_linear_regressor(node: OnnxNode) -> Sequence[str]:
    constants = _weights(node, node.attribute("targets", 1))
    return node.emit(LinearRegressor(post_transform_of(node)), node.inputs[0], *constants)


@onnx("LinearClassifier", since=(1,), domain="ai.onnx.ml")
def import_linear_classifier(node: OnnxNode) -> Sequence[str]:
    labels = class_labels(node)
    count = len(node.attribute("intercepts", ())) or len(labels)
    if count not in (len(labels), 1) or (count == 1 and len(labels) > 2):
        raise ModelError(f"{count} products are computed for {len(labels)} classes")
    constants = _weights(node, count)
    best, scores = node.emit(LinearClassifier(post_transform_of(node)), node.inputs[0], *constants, outputs=2)
    return (label_of(node, labels, best), scores)


def _weights(node: OnnxNode, targets: int) -> tuple[str, str]:
    """Add the coefficients ``[targets, features]`` and the intercepts ``[targets]``; return their names."""
    weights: Array = np.array(node.attribute("coefficients", ()), np.float32)
    bias = np.array(node.attribute("intercepts", (0.0,) * targets) or (0.0,) * targets, np.float32)
    if targets < 1 or weights.size % targets or bias.size != targets:
        raise ModelError(f"{weights.size} coefficients and {bias.size} intercepts are not those of {targets} products")
    return node.literal(weights.reshape(targets, -1)), node.literal(bias)
