"""Strings cut at a delimiter: ONNX's StringSplit."""

from __future__ import annotations

from itertools import zip_longest
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive


@primitive
@frozen
class StringSplit(OfHostValues):
    """The parts of every string of x ``[...]`` as ``[..., most parts]``, filled up with ``""``; their number, int64.

    An empty string has no parts, as in ONNX Runtime.

    Attributes:
        delimiter: Where to cut; ``""`` for any run of white space.
        maxsplit: The most cuts of one string; ``None`` for all.
    """

    delimiter: str = ""
    maxsplit: int | None = None

    kind: ClassVar[str] = "string_split"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        parts = [*map(self._parts, x.ravel().tolist())]
        counts = np.array([*map(len, parts)], np.int64).reshape(x.shape)
        y = np.empty((x.size, int(counts.max(initial=0))), object)
        for column, found in zip(y.T, zip_longest(*parts, fillvalue=""), strict=True):
            column[:] = found
        return y.reshape(*x.shape, y.shape[1]), counts

    def _parts(self, text: str) -> list[str]:
        most = -1 if self.maxsplit is None else self.maxsplit
        if not self.delimiter:
            return text.strip().split(maxsplit=most)
        return text.split(self.delimiter, most) if text else []


@onnx("StringSplit", since=(20,))
def import_string_split(node: OnnxNode) -> Primitive:
    return StringSplit(node.attribute("delimiter", ""), node.attribute("maxsplit", None))
