"""Scores as maps from their labels: ai.onnx.ml's ZipMap."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive

_FEW_LABELS, _MANY_ROWS = 5, 9
"""Labels up to which a map does not grow as they are put into it, and rows from which on that is done for each."""


@primitive
@frozen
class ZipMap(OfHostValues, Remembering):
    """A map from *labels* to the scores of each row of x ``[rows, labels]``, as a sequence; a vector is one row.

    The labels are in alphabetical order, or in that of numbers.
    """

    labels: tuple[str, ...] | tuple[int, ...]

    kind: ClassVar[str] = "zip_map"

    def result_types(self) -> Sequence[str | None]:
        return (f"seq(map({'string' if isinstance(self.labels[0], str) else 'int64'},tensor(float)))",)

    def reference(self, *inputs: Array) -> Any:
        (x,) = inputs
        if x.ndim not in (1, 2) or x.shape[-1] != len(self.labels):
            raise ShapeError(f"scores {list(x.shape)} are not [rows, {len(self.labels)}], one a label")
        order, labels = _sorted(self)
        scores = np.atleast_2d(x).astype(np.float32).take(order, 1)
        if len(labels) <= _FEW_LABELS and len(scores) >= _MANY_ROWS:
            return (tuple(_maps(labels, scores)),)
        return (tuple(map(dict, map(zip, repeat(labels), scores.tolist()))),)


def _maps(labels: Sequence[Any], scores: Array) -> list[dict[Any, float]]:
    """Return the map of each row; to put each label into all of them takes a third of making each of its pairs."""
    first, *others = labels
    column, *columns = scores.T.tolist()
    made = [{first: score} for score in column]
    for label, column in zip(others, columns, strict=True):
        for each, score in zip(made, column):  # noqa: B905  # of the same length
            each[label] = score
    return made


@remembered
def _sorted(of: ZipMap) -> tuple[list[int], list[Any]]:
    """Return the places of the labels in their order, the last of each, and the labels."""
    places = dict(sorted((label, i) for i, label in enumerate(of.labels)))
    return list(places.values()), list(places)


@onnx("ZipMap", since=(1,), domain="ai.onnx.ml")
def import_zip_map(node: OnnxNode) -> Primitive:
    strings, numbers = node.attribute("classlabels_strings", ()), node.attribute("classlabels_int64s", ())
    if bool(strings) == bool(numbers):
        raise node.unsupported("expected either classlabels_strings or classlabels_int64s")
    return ZipMap(strings or numbers)
