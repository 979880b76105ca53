"""What ai.onnx.ml's models make of their scores: the logistic function, softmax, the inverse normal distribution.

The constants of PROBIT and SOFTMAX_ZERO are those of ONNX Runtime (``ml_common.h``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composition
from clgraph.graph.importing import OnnxNode
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.softmax import Softmax

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""In the order of TreeEnsemble's numbers."""


@primitive
@frozen
class PostTransform(Primitive):
    """Scores ``[rows, targets]`` under *function*, one of ``TRANSFORMS``."""

    function: str

    kind: ClassVar[str] = "post_transform"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if self.function not in TRANSFORMS:
            raise ShapeError(f"{self.function!r} is not one of {', '.join(TRANSFORMS)}")
        return (x.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (transformed(inputs[0], self.function),)


def post_transform_of(node: OnnxNode) -> str:
    """Return the post_transform of *node*; raises ``UnsupportedError`` for one that ONNX does not define."""
    found: str = node.attribute("post_transform", "NONE")
    if found not in TRANSFORMS:
        raise node.unsupported(f"post_transform {found!r} is not one of {', '.join(TRANSFORMS)}")
    return found


def transform(c: Composition, scores: str, function: str) -> str:
    """Add the layer that makes *function* of *scores* ``[rows, targets]`` to *c*; return its result."""
    if function == "NONE":
        return scores
    if function == "LOGISTIC":
        return c.add(Activation("sigmoid"), scores)
    return c.add(Softmax((1,)) if function == "SOFTMAX" else PostTransform(function), scores)


def transformed(scores: Array, function: str) -> Array:
    """Return *scores* ``[rows, targets]`` under *function*, one of ``TRANSFORMS``."""
    match function:
        case "LOGISTIC":
            return logistic(scores)
        case "SOFTMAX":
            shifted = np.exp(scores - scores.max(1, keepdims=True))
            return np.asarray(shifted / shifted.sum(1, keepdims=True))
        case "SOFTMAX_ZERO":
            most = scores.max(1, keepdims=True)
            zero = np.abs(scores) <= 1e-7
            made = np.where(zero, scores * np.exp(-most), np.exp(scores - most))
            return np.asarray(made / np.where(zero, 0, made).sum(1, keepdims=True))
        case "PROBIT":
            return np.asarray(np.sqrt(scores.dtype.type(2)) * _inverse_error(2 * scores - 1))
    return scores


def logistic(x: Array) -> Array:
    """Return ``1 / (1 + exp(-x))``, without an overflow."""
    small = 1 / (1 + np.exp(-np.abs(x)))
    return np.asarray(np.where(x < 0, 1 - small, small))


def _inverse_error(x: Array) -> Array:
    """Return an approximation of the inverse error function (S. Winitzki, 2008)."""
    with np.errstate(all="ignore"):
        log = np.log((1 - x) * (1 + x))
        v = x.dtype.type(2 / (np.pi * 0.147)) + log / 2
        return np.asarray(
            np.where(x < 0, -1, 1).astype(x.dtype) * np.sqrt(np.sqrt(v * v - log / x.dtype.type(0.147)) - v)
        )
