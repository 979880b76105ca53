"""Words without stop words, in upper or lower case: ONNX's StringNormalizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered
from clgraph.errors import ModelError, ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive

_CASES: Mapping[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}


@primitive
@frozen
class StringNormalizer(OfHostValues, Remembering):
    """The words of x ``[words]`` or ``[1, words]`` that are no *stopwords*, in the case of *action*.

    Where none is left there is one ``""``. The locale that a model names is not looked at: cases are Unicode's.

    Attributes:
        action: ``LOWER``, ``UPPER`` or ``NONE``.
        case_sensitive: Whether a word in another case than a stop word's is none.
    """

    action: str = "NONE"
    case_sensitive: bool = False
    stopwords: tuple[str, ...] = ()

    kind: ClassVar[str] = "string_normalizer"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
            raise ShapeError(f"strings {list(x.shape)} are neither [words] nor [1, words]")
        words, left_out = x.ravel().tolist(), _left_out(self)
        if left_out:
            same = _same(self)
            words = [word for word in words if same(word) not in left_out]
        words = list(map(_CASES[self.action], words))
        return (np.array(words or [""], object).reshape((-1,) if x.ndim == 1 else (1, -1)),)


def _same(of: StringNormalizer) -> Callable[[str], str]:
    """Return what makes the same of words that are one stop word."""
    return _CASES["NONE" if of.case_sensitive else "LOWER"]


@remembered
def _left_out(of: StringNormalizer) -> frozenset[str]:
    """Return what :func:`_same` makes of the stop words."""
    return frozenset(map(_same(of), of.stopwords))


@onnx("StringNormalizer", since=(10,))
def import_string_normalizer(node: OnnxNode) -> Primitive:
    action = node.attribute("case_change_action", "NONE")
    if action not in _CASES:
        raise ModelError(f"case_change_action {action!r} is not one of {', '.join(_CASES)}")
    return StringNormalizer(
        action,
        bool(node.attribute("is_case_sensitive", 0)),
        node.attribute("stopwords", ()),
    )
