"""Whether strings match a regular expression: ONNX's RegexFullMatch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive
from clgraph.ops.patterns import compiled, translated


@primitive
@frozen
class RegexFullMatch(OfHostValues, Remembering):
    """Whether the whole of each string matches *pattern*: a bool.

    Patterns are ONNX's, those of RE2 (:mod:`clgraph.ops.patterns`).
    """

    pattern: str

    kind: ClassVar[str] = "regex_full_match"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (np.fromiter(map(_matcher(self), x.ravel().tolist()), np.bool_, x.size).reshape(x.shape),)


@remembered
def _matcher(of: RegexFullMatch) -> Callable[[str], Any]:
    """Return what returns nothing of a string that does not match."""
    return re.compile(translated(of.pattern)).fullmatch


@onnx("RegexFullMatch", since=(20,))
def import_regex_full_match(node: OnnxNode) -> Primitive:
    pattern = node.attribute("pattern", "")
    compiled(pattern, node)
    return RegexFullMatch(pattern)
