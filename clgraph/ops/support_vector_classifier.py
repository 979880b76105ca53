"""Support vector machines that choose a class: ai.onnx.ml's SVMClassifier, host and CPUs.

As in libsvm, which models come from: votes of one class against another, probabilities by Wu, Lin and Weng (2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import mul
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ModelError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.binary_scores import binary_scores
from clgraph.ops.post_transform import logistic, post_transform_of, transformed
from clgraph.ops.support_vectors import (
    LANES,
    PACKED,
    KernelFunction,
    checked_rows,
    floats,
    in_blocks,
    kernel_of,
    packed,
    table,
)
from clgraph.ops.tree_ensemble import class_labels, label_of

_BY_NUMBER = 64
"""Elements up to which Python's numbers take less than NumPy's calls."""

_MOST_WHOLE = 8
"""Classes whose pairs are weighted by one product, most of whose weights are 0."""

_LEAST = 1e-7
"""Of a probability of one class against another."""


@primitive
@frozen
class SupportVectorClassifier(Primitive):
    """The place of the best class of each row of x, int64 ``[rows]``, and scores, float32.

    Inputs: x ``[rows, features]``, v ``[vectors, features]``, w ``[classes - 1, vectors]``, of each vector against the
    other classes, or ``[pairs, vectors]``; without vectors w is ``[classes, features]`` and scores are products. Else
    they are one for each pair of classes, or with *probabilities* one a class; of two classes always two. Devices read
    v and w packed (``PACKED``).

    Attributes:
        vectors_per_class: How many of v are each class's.
        rho: Added to the score of each pair.
        probabilities: Factor and addend of each pair's score under the logistic function, all factors first.
        classes: How many there are.
        positive: Whether no weight is below 0. Of two classes without vectors the second is best where any score is
            above 0, or 0.5 then, as in ONNX Runtime.
    """

    function: str
    parameters: tuple[float, ...]
    vectors_per_class: tuple[int, ...]
    rho: tuple[float, ...]
    probabilities: tuple[float, ...]
    classes: int
    positive: bool = False
    post_transform: str = "NONE"

    kind: ClassVar[str] = "support_vector_classifier"
    slow_reference: ClassVar[bool] = True
    exact_inputs: ClassVar[frozenset[int]] = frozenset(range(PACKED + 1))

    @property
    def scores(self) -> int:
        """How many scores a row has."""
        if not self.vectors_per_class or self.probabilities or self.classes == 2:
            return self.classes
        return self.classes * (self.classes - 1) // 2

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        rows = checked_rows(inputs[0], inputs[1].shape[1] or inputs[2].shape[1])
        return (Layout(DType.I64, (rows,)), Layout(DType.F32, (rows, self.scores)))

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, vectors, weights = (a.astype(np.float64, copy=False) for a in inputs[:PACKED])
        if not self.vectors_per_class:
            scores = KernelFunction(self.function, *self.parameters).of(x, weights) + self.rho[0]
            best = scores.argmax(1)
            if self.classes == 2:
                most = scores.max(1)
                best = np.where(most >= 0.5 if self.positive else most > 0, 1, best)
        else:
            kernel = KernelFunction(self.function, *self.parameters)
            scores, votes = in_blocks(x, vectors, lambda rows: self._pairs(kernel.of(rows, vectors), weights))
            best = votes.argmax(1)
            scores = self._probabilities(scores) if self.probabilities else scores
        if scores.shape[1] > 1:
            scores = transformed(scores, self.post_transform)
        else:
            _, scores = binary_scores(scores[:, 0], self.post_transform, positive=self.post_transform != "NONE")
        return best.astype(np.int64), scores.astype(np.float32)

    def _pairs(self, kernels: Array, weights: Array) -> tuple[Array, Array]:
        """Return the score of each pair of classes ``[rows, pairs]``, and the votes for each class."""
        first, second = _pairs_of(self.classes)
        if len(weights) == len(first):
            scores = kernels @ weights.T
        else:
            starts = np.cumsum((0, *self.vectors_per_class))
            # Of each class's vectors with the weights against each other class.
            parts = np.empty((self.classes, self.classes - 1, len(kernels)))
            for part, begin, end in zip(parts, starts, starts[1:], strict=False):
                np.matmul(weights[:, begin:end], kernels[:, begin:end].T, out=part)
            scores = (parts[first, second - 1] + parts[second, first]).T
        scores += self.rho[: len(first)]
        won = (scores > 0).astype(np.float64)
        return scores, np.asarray(won @ _votes_of(self.classes) + np.arange(self.classes))

    def _probabilities(self, pairs: Array) -> Array:
        """Return the probability of each class ``[rows, classes]`` from the scores of each pair."""
        factor, addend = _halves(self.probabilities)
        first = np.minimum(np.maximum(1 - logistic(pairs * factor + addend), _LEAST), 1 - _LEAST)
        against = np.zeros((len(pairs), self.classes, self.classes))
        i, j = _pairs_of(self.classes)
        against[:, i, j], against[:, j, i] = first, 1 - first
        return coupled(against)


@cache
def _pairs_of(classes: int) -> tuple[Array, Array]:
    """Return the first and the second class of each pair, in the order of scores."""
    return np.triu_indices(classes, 1)


@cache
def _halves(numbers: tuple[float, ...]) -> tuple[Array, Array]:
    """Return the first and the second half of *numbers*."""
    first, second = np.array(numbers).reshape(2, -1)
    return first, second


@cache
def _votes_of(classes: int) -> Array:
    """Return what each pair that its first class wins changes of the votes for the classes, ``[pairs, classes]``.

    Where all second classes win, a class has a vote of each before it.
    """
    unit, (first, second) = np.eye(classes), _pairs_of(classes)
    return np.asarray(unit[first] - unit[second])


def _of_pairs(weights: Array, per_class: Sequence[int]) -> Array:
    """Return the weights of all vectors for each pair of classes ``[pairs, vectors]``, 0 of other classes' vectors."""
    first, second = (places[:, np.newaxis] for places in _pairs_of(len(per_class)))
    owner, column = np.repeat(np.arange(len(per_class)), per_class), np.arange(sum(per_class))
    made = np.where(owner == first, weights[second - 1, column], 0)
    return np.where(owner == second, weights[first, column], made).astype(weights.dtype)


def coupled(against: Array) -> Array:
    """Return the probabilities of classes ``[rows, classes]``: libsvm's ``multiclass_probability``, all rows at once.

    Args:
        against: Of each class against each other, ``[rows, classes, classes]``.
    """
    if against.size <= _BY_NUMBER:
        return np.array([_coupled_row(row) for row in against.tolist()]).reshape(against.shape[:2])
    count, turned = against.shape[1], against.transpose(0, 2, 1)
    q, diagonal = -turned * against, np.arange(count)
    q[:, diagonal, diagonal] = (turned**2).sum(2)
    found, left = np.full(against.shape[:2], 1 / count), np.arange(len(against))
    for _ in range(max(100, count)):
        p = found[left]
        qp = (q @ p[:, :, None])[:, :, 0]
        total = (p * qp).sum(1)
        going = ~(np.abs(qp - total[:, None]).max(1) < 0.005 / count)
        if not going.all():
            left, q, p, qp, total = left[going], q[going], p[going], qp[going], total[going]
        if not len(left):
            break
        for t in range(count):
            step = (total - qp[:, t]) / q[:, t, t]
            p[:, t] += step
            total = (total + step * (step * q[:, t, t] + 2 * qp[:, t])) / (1 + step) ** 2
            qp = (qp + step[:, None] * q[:, t]) / (1 + step)[:, None]
            p /= (1 + step)[:, None]
        found[left] = p
    return found


def _coupled_row(against: Sequence[Sequence[float]]) -> list[float]:
    """Return what :func:`coupled` does of one row, number by number."""
    count, columns = len(against), list(zip(*against, strict=True))
    q = [[-b * a for a, b in zip(row, column, strict=True)] for row, column in zip(against, columns, strict=True)]
    for t, column in enumerate(columns):
        q[t][t] = sum([a**2 for a in column])
    p = [1 / count] * count
    for _ in range(max(100, count)):
        qp = [sum(map(mul, row, p)) for row in q]
        total = sum(map(mul, p, qp))
        if max([abs(a - total) for a in qp]) < 0.005 / count:
            break
        for t, row in enumerate(q):
            own = row[t]
            step = (total - qp[t]) / own
            p[t] += step
            scale = 1 + step
            total = (total + step * (step * own + 2 * qp[t])) / scale**2
            qp = [(a + step * b) / scale for a, b in zip(qp, row)]  # noqa: B905  # of the same length
            p = [a / scale for a in p]
    return p


@onnx("SVMClassifier", since=(1,), domain="ai.onnx.ml")
def import_svm_classifier(node: OnnxNode) -> Sequence[str]:
    labels, per_class = class_labels(node), node.attribute("vectors_per_class", ())
    weights, rho = floats(node, "coefficients"), floats(node, "rho")
    count, classes = sum(per_class), len(per_class) or len(labels)
    vectors = table(floats(node, "support_vectors"), count, "support_vectors")
    pairs = classes * (classes - 1) // 2
    probabilities = (*node.attribute("prob_a", ()), *node.attribute("prob_b", ()))
    if len(labels) != classes or len(rho) < (pairs if per_class else 1) or len(probabilities) not in (0, 2 * pairs):
        raise ModelError(f"rho, prob_a, prob_b and the labels are not those of {classes} classes")
    function, parameters = kernel_of(node) if per_class else ("LINEAR", ())
    of = SupportVectorClassifier(
        function,
        parameters,
        per_class,
        tuple(rho.tolist()),
        probabilities if per_class else (),
        classes,
        bool((weights >= 0).all()),
        post_transform_of(node),
    )
    matrix = table(weights, classes - 1 if per_class else classes, "coefficients")
    if per_class and matrix.shape[1] != count:
        raise ModelError(f"{count} support vectors of {classes} classes have {weights.size} coefficients")
    if 2 < len(per_class) <= _MOST_WHOLE:
        matrix = _of_pairs(matrix, per_class)
    # As the host computes with them, so that no run converts them.
    few = packed(vectors, matrix) if 2 <= len(per_class) <= _MOST_WHOLE else np.zeros((0, 0, LANES), np.float32)
    wide = (array.astype(np.float64) for array in (vectors, matrix))
    best, scores = node.emit(of, node.inputs[0], *map(node.literal, (*wide, few)), outputs=2)
    return (label_of(node, labels, best), scores)
