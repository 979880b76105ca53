"""Operators that move or compare elements, on strings: each string is stood for by a number, in alphabetical order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.host_types import has_strings
from clgraph.graph.interpret import ControlFlow, compute
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive

_CODE = np.dtype(np.uint32)
"""Of the numbers that stand for strings. No operator that takes strings takes or makes others of this type."""


@primitive
@frozen
class OnStrings(OfHostValues):
    """What *inner* makes of tensors of strings, each a number for its place in the alphabetical list of all of them.

    The empty string has number 0, so that what pads with zeros pads with it.

    Attributes:
        types: Of the results, where the front end cannot tell them by the operator.
    """

    inner: Primitive
    types: tuple[str, ...] = ()

    kind: ClassVar[str] = "on_strings"

    def result_types(self) -> Sequence[str | None]:
        return self.types

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        texts = [a.ravel() for a in inputs if has_strings(a)]
        words, codes = np.unique(np.concatenate([np.array([""], object), *texts]), return_inverse=True)
        ends = np.cumsum([1, *map(len, texts)])
        pieces = iter(np.split(codes.ravel().astype(_CODE), ends)[1:])
        results = compute(self.inner, [next(pieces).reshape(a.shape) if has_strings(a) else a for a in inputs])
        return tuple(_texts(words, a) if a.dtype == _CODE else a for a in map(np.asarray, results))


def on_strings(of: Primitive) -> Primitive:
    """Return *of* as it is where it is about strings by itself, else on the numbers that stand for them."""
    return of if isinstance(of, OfHostValues | ControlFlow) else OnStrings(of)


def _texts(words: Array, codes: Array) -> Any:
    found = np.empty(codes.shape, object)
    found[...] = words[codes]
    return found
