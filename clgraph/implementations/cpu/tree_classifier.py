"""Classifiers of decision trees on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.tree_ensemble import SERVES, ScoreTransform, TreeRows
from clgraph.ops.tree_ensemble import TreeClassifier
from clgraph.selector.implementation import implements

_BEST, _FIRST, _SECOND = 1, 2, 3


@implements(TreeClassifier, name="tree_classifier.rows", serves=SERVES, general=True)
class TreeClassifierRows(TreeRows[TreeClassifier]):
    """The class of the best score and the scores, as ``TreeClassifier.reference`` reads them."""

    @classmethod
    def reads(cls, f: TreeClassifier) -> ScoreTransform:
        if f.scored == 0 and len(f.base) < 2:
            return ScoreTransform("SUM", f.post_transform, f.base, _FIRST, f.positive)
        classes = _SECOND if f.scored == 1 and not f.base else _BEST
        return ScoreTransform("SUM", f.post_transform, f.base, classes, f.positive)
