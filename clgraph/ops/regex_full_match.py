"""Whether strings match a regular expression: ONNX's RegexFullMatch."""

from __future__ import annotations

import re
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive
from clgraph.ops.patterns import compiled, translated


@primitive
@frozen
class RegexFullMatch(OfHostValues):
    """Whether the whole of each string matches *pattern*: a bool.

    Patterns are ONNX's, those of RE2 (:mod:`clgraph.ops.patterns`).
    """

    pattern: str

    kind: ClassVar[str] = "regex_full_match"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        match = re.compile(translated(self.pattern)).fullmatch
        return (np.array([found is not None for found in map(match, x.ravel().tolist())], np.bool_).reshape(x.shape),)


@onnx("RegexFullMatch", since=(20,))
def import_regex_full_match(node: OnnxNode) -> Primitive:
    pattern = node.attribute("pattern", "")
    compiled(pattern, node)
    return RegexFullMatch(pattern)
