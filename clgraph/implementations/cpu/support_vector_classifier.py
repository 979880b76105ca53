"""Support vector machines that choose a class on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.implementations.cpu.support_vector_regressor import SERVES, SupportVectorRows
from clgraph.ops.support_vector_classifier import SupportVectorClassifier
from clgraph.selector.implementation import implements


@implements(SupportVectorClassifier, name="support_vector_classifier.rows", serves=SERVES, general=True)
class SupportVectorClassifierRows(SupportVectorRows[SupportVectorClassifier]):
    """The class with the most votes, and the scores of pairs or the probabilities of classes."""

    @classmethod
    def transform(cls, f: SupportVectorClassifier) -> str:
        return f.post_transform

    @classmethod
    def numbers(cls, f: SupportVectorClassifier) -> tuple[int, int, int, Sequence[float]]:
        pairs = f.classes * (f.classes - 1) // 2
        return f.classes, int(bool(f.probabilities)), 0, (*f.rho[:pairs], *f.probabilities)
