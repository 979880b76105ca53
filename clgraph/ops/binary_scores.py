"""Scores of classifiers of two classes that compute one number a row, as ONNX Runtime reads it."""

from __future__ import annotations

import numpy as np

from clgraph.graph.primitive import Array
from clgraph.ops.post_transform import logistic, transformed


def binary_scores(score: Array, post_transform: str, *, positive: bool) -> tuple[Array, Array]:
    """Return the place of the better class ``[rows]`` and the scores of both ``[rows, 2]``, of the second's *score*.

    Where every weight is *positive* a score is a probability: the second class is better above 0.5. Else it is better
    above 0, and the first has the negative score. Of the transforms only LOGISTIC and PROBIT do something.
    """
    best = (score > (0.5 if positive else 0.0)).astype(np.int64)
    if post_transform == "PROBIT":
        made = transformed(score[:, np.newaxis], post_transform)[:, 0]
        return best, np.stack([made, made], 1)
    both = np.stack([-score, score], 1)
    if post_transform == "LOGISTIC":
        return best, logistic(both)
    return best, np.stack([1 - score, score], 1) if positive else both
