"""Sums over decision trees: ai.onnx.ml's TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier, host and CPUs.

On the host all rows go down all trees at once, a level at a time; the trees are constants in flat arrays. Devices read
the same trees as nodes that have all that a comparison needs (``tree_nodes.packed``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ModelError, ShapeError
from clgraph.graph.host_types import STRINGS
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.binary_scores import binary_scores
from clgraph.ops.gather import Gather
from clgraph.ops.on_strings import OnStrings
from clgraph.ops.post_transform import TRANSFORMS, post_transform_of, transformed
from clgraph.ops.tree_attributes import read_classic, read_ensemble, values_of
from clgraph.ops.tree_nodes import Leaves, Trees, packed

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""In the order of TreeEnsemble's numbers."""

_CHUNK = 1 << 20
"""Rows times trees that are walked at once: some tens of megabytes."""

_TREES = len(Trees.NAMES)

VALUES, ROOTS = (1 + Trees.NAMES.index(name) for name in ("values", "roots"))
TARGETS, WEIGHTS = (1 + _TREES + Leaves.NAMES.index(name) for name in ("targets", "weights"))
NODES = 1 + _TREES + len(Leaves.NAMES)
"""Slots of what devices read."""


@primitive
@frozen
class TreeEnsemble(Primitive):
    """Scores ``[rows, targets]`` of x ``[rows, features]``: what the leaves hold that a row reaches, by target.

    Inputs: x, the trees (``Trees.NAMES``), the leaves (``Leaves.NAMES``), and both packed for devices (``NODES``).

    Attributes:
        targets: How many.
        features: How many the trees read.
        aggregate: One of ``AGGREGATES``, over the trees.
        base: Added to the scores, one a target, or nothing.
        post_transform: Of the scores, one of ``TRANSFORMS``.
        dtype: Of the scores.
    """

    targets: int
    features: int
    aggregate: str = "SUM"
    base: tuple[float, ...] = ()
    post_transform: str = "NONE"
    dtype: DType = DType.F32

    kind: ClassVar[str] = "tree_ensemble"
    exact_inputs: ClassVar[frozenset[int]] = frozenset(range(NODES + 1))
    slow_reference: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (Layout(self.dtype, (_rows(inputs[0], self.features), self.targets)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        scores, _ = _scores(self, inputs)
        scores = scores + np.array(self.base or 0.0)
        if self.targets > 1 or self.post_transform == "PROBIT":
            scores = transformed(scores, self.post_transform)
        return (scores.astype(self.dtype.numpy),)


@primitive
@frozen
class TreeClassifier(Primitive):
    """The place of the best class of each row, int64 ``[rows]``, and the scores ``[rows, classes]``, as float32.

    Inputs as :class:`TreeEnsemble` has them, whose classes are targets.

    A class is the best by its score as float32, in front of the transform.

    Attributes:
        scored: Of two classes, the one that leaves have scores for where it is the only one: what the first has is the
            score of the second, and the first is what is left; what the second has decides alone.
        positive: Whether no score of a leaf is below 0.
    """

    targets: int
    features: int
    base: tuple[float, ...] = ()
    post_transform: str = "NONE"
    scored: int | None = None
    positive: bool = True

    kind: ClassVar[str] = "tree_classifier"
    exact_inputs: ClassVar[frozenset[int]] = TreeEnsemble.exact_inputs
    slow_reference: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        rows = _rows(inputs[0], self.features)
        return (Layout(DType.I64, (rows,)), Layout(DType.F32, (rows, self.targets)))

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        scores, scored = _scores(self, inputs)
        if self.scored == 0 and len(self.base) < 2:
            score = _rounded(scores[:, 0] + sum(self.base))
            best, scores = binary_scores(score, self.post_transform, positive=self.positive)
        elif self.scored == 1 and not self.base:
            best = _rounded(scores[:, 1]) > (0.5 if self.positive else 0.0)
            scores = transformed(scores, self.post_transform)
        else:
            scores = scores + np.array(self.base or 0.0)
            best = np.where(scored | bool(self.base), _rounded(scores), -np.inf).argmax(1)
            scores = transformed(scores, self.post_transform)
        return best.astype(np.int64), scores.astype(np.float32)


def _rounded(scores: Array) -> Array:
    """Return *scores* as float32 has them, in which votes of 1/30 that are equal stay equal."""
    rounded: Array = scores.astype(np.float32).astype(np.float64)
    return rounded


def _rows(x: Layout, features: int) -> int:
    if x.rank != 2 or x.shape[1] < features:
        raise ShapeError(f"{list(x.shape)} is not [rows, {features} features or more], which the trees read")
    return x.shape[0]


def _scores(of: TreeEnsemble | TreeClassifier, inputs: Sequence[Array]) -> tuple[Array, Array]:
    """Return the scores ``[rows, targets]`` in double precision, and whether a leaf had one."""
    x = inputs[0]
    trees, leaves = Trees(*inputs[1 : 1 + _TREES]), Leaves(*inputs[1 + _TREES : NODES])
    aggregate = of.aggregate if isinstance(of, TreeEnsemble) else "SUM"
    start = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
    scores = np.full((len(x), of.targets), start)
    scored = np.zeros((len(x), of.targets), np.bool_)
    step = max(1, _CHUNK // max(1, len(trees.roots)))
    for begin in range(0, len(x), step):
        part = slice(begin, begin + step)
        rows, targets, weights = leaves.entries(trees.walk(x[part]))
        if aggregate in ("MIN", "MAX"):
            (np.minimum if aggregate == "MIN" else np.maximum).at(scores[part], (rows, targets), weights)
        else:
            sums = np.bincount(rows * of.targets + targets, weights, scores[part].size)
            scores[part] = sums.reshape(-1, of.targets)
        scored[part][rows, targets] = True
    scores[~scored] = 0
    if aggregate == "AVERAGE":
        scores /= max(1, len(trees.roots))
    return scores, scored


@onnx("TreeEnsemble", since=(5,), domain="ai.onnx.ml")
def import_tree_ensemble(node: OnnxNode) -> Sequence[str]:
    trees, leaves = read_ensemble(node)
    targets, weights = node.attribute("n_targets", 1), node.attribute("leaf_weights", np.zeros(0, np.float32))
    ensemble = TreeEnsemble(
        _checked_targets(targets, leaves),
        trees.features,
        _named(AGGREGATES, node.attribute("aggregate_function", 1)),
        (),
        _named(TRANSFORMS, node.attribute("post_transform", 0)),
        DType.of(weights.dtype),
    )
    return node.emit(ensemble, node.inputs[0], *_constants(node, trees, leaves))


@onnx("TreeEnsembleRegressor", since=(1, 3, 5), domain="ai.onnx.ml")
def import_tree_ensemble_regressor(node: OnnxNode) -> Sequence[str]:
    trees, leaves = read_classic(node, "target")
    ensemble = TreeEnsemble(
        _checked_targets(node.attribute("n_targets", 1), leaves),
        trees.features,
        node.attribute("aggregate_function", "SUM"),
        _base(node, node.attribute("n_targets", 1)),
        post_transform_of(node),
    )
    if ensemble.aggregate not in AGGREGATES:
        raise node.unsupported(f"aggregate_function {ensemble.aggregate!r} is not one of {', '.join(AGGREGATES)}")
    return node.emit(ensemble, node.inputs[0], *_constants(node, trees, leaves))


@onnx("TreeEnsembleClassifier", since=(1, 3, 5), domain="ai.onnx.ml")
def import_tree_ensemble_classifier(node: OnnxNode) -> Sequence[str]:
    trees, leaves = read_classic(node, "class")
    labels = class_labels(node)
    classes = np.unique(leaves.targets)
    classifier = TreeClassifier(
        _checked_targets(len(labels), leaves),
        trees.features,
        _base(node, len(labels)),
        post_transform_of(node),
        int(classes[0]) if len(labels) == 2 and len(classes) == 1 else None,
        bool((leaves.weights >= 0).all()),
    )
    best, scores = node.emit(classifier, node.inputs[0], *_constants(node, trees, leaves), outputs=2)
    return (label_of(node, labels, best), scores)


def _constants(node: OnnxNode, trees: Trees, leaves: Leaves) -> list[str]:
    return [node.literal(array) for array in (*trees.arrays, *leaves.arrays, packed(trees, leaves))]


def class_labels(node: OnnxNode) -> Array:
    """Return the labels of a classifier's classes, strings or int64."""
    strings = node.attribute("classlabels_strings", ())
    numbers = node.attribute("classlabels_int64s", ()) or node.attribute("classlabels_ints", ())
    if bool(strings) == bool(numbers):
        raise node.unsupported("expected the labels of the classes, as strings or as integers")
    return np.array(strings, object) if strings else np.array(numbers, np.int64)


def label_of(node: OnnxNode, labels: Array, place: str) -> str:
    """Add what picks the label at each *place*; return its result, which is *place* where labels are places."""
    if labels.dtype == np.int64 and np.array_equal(labels, np.arange(len(labels))):
        return place
    strings = labels.dtype == object
    return node.emit(OnStrings(Gather(), (STRINGS,)) if strings else Gather(), node.literal(labels), place)[0]


def _base(node: OnnxNode, targets: int) -> tuple[float, ...]:
    found = tuple(values_of(node, "base_values").tolist())
    if len(found) not in (0, 1, targets):
        raise ModelError(f"base_values has {len(found)} numbers; expected one, or one for each of {targets}")
    return found


def _checked_targets(count: int, leaves: Leaves) -> int:
    if leaves.targets.size and not 0 <= leaves.targets.min() <= leaves.targets.max() < count:
        raise ModelError(f"a leaf has a score for a target that is not one of {count}")
    return count


def _named(names: Sequence[str], number: int) -> str:
    if not 0 <= number < len(names):
        raise ModelError(f"{number} stands for none of {', '.join(names)}")
    return names[number]
