"""Operators that move or compare elements, on strings: each string is stood for by a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.host_types import has_strings
from clgraph.graph.interpret import ControlFlow, compute
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive

CODE = np.dtype(np.uint32)
"""Of the numbers that stand for strings. No operator that takes strings takes or makes others of this type."""

_EMPTY = np.array([""], object)

_COMPARING = frozenset({"unique"})
"""Kinds of operators to which it matters which strings are equal and come first; the others move them."""

MOVING = frozenset(
    (
        "array_feature_extractor",
        "concat",
        "expand",
        "flatten",
        "gather",
        "reshape",
        "shape",
        "size",
        "slice",
        "split",
        "squeeze",
        "transpose",
        "unsqueeze",
        "where",
    )
)
"""Kinds whose references do the same to any elements, once they are bound, and make no element of their own."""

_AS_THEY_ARE: Mapping[str, Callable[[Sequence[Array]], Sequence[Array]]] = {
    "eltwise": lambda inputs: inputs,
    "non_zero": lambda inputs: [a.astype(np.bool_) for a in inputs],
}
"""What kinds of operators take in place of numbers: one compares strings, one tells the empty ones."""


@primitive
@frozen
class OnStrings(OfHostValues):
    """What *inner* makes of tensors of strings, each a number for its place in a list of all of them.

    Where *inner* compares them the list is alphabetical, and equal strings are one number; sorting takes most of the
    time. The empty string has number 0, so that what pads with zeros pads with it.

    Attributes:
        types: Of the results, where the front end cannot tell them by the operator.
    """

    inner: Primitive
    types: tuple[str, ...] = ()

    kind: ClassVar[str] = "on_strings"

    def result_types(self) -> Sequence[str | None]:
        return self.types

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return self.computed_by(partial(compute, self.inner), inputs)

    def computed_by(self, run: Callable[[list[Array]], Sequence[Array]], inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Return the results on *inputs*, where *run* computes what *inner* makes of those that stand for them."""
        if self.inner.kind in _AS_THEY_ARE:
            return self.inner.reference(*_AS_THEY_ARE[self.inner.kind](inputs))
        words = np.concatenate((_EMPTY, *(a.ravel() for a in inputs if has_strings(a))))
        if self.inner.kind in _COMPARING:
            words, codes = np.unique(words, return_inverse=True)
            codes = codes.astype(CODE)
        else:
            codes = np.arange(len(words), dtype=CODE)
        given, end = list(inputs), len(_EMPTY)
        for slot, a in enumerate(inputs):
            if has_strings(a):
                begin, end = end, end + a.size
                given[slot] = codes[begin:end].reshape(a.shape)
        results = [np.asarray(a) for a in run(given)]
        return tuple([words.take(a.ravel()).reshape(a.shape) if a.dtype == CODE else a for a in results])


def on_strings(of: Primitive) -> Primitive:
    """Return *of* as it is where it is about strings by itself, else on the numbers that stand for them."""
    return of if isinstance(of, OfHostValues | ControlFlow) else OnStrings(of)
