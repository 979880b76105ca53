"""Strings cut at a delimiter: ONNX's StringSplit."""

from __future__ import annotations

from collections.abc import Callable
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
        # One list of all parts: the collector looks through many lists again and again.
        found: list[str] = []
        ends: list[int] = []
        for parts in map(self._parts, x.ravel().tolist()):
            found += parts
            ends.append(len(found))
        counts = np.diff(np.array(ends, np.int64), prepend=0)
        y = np.full((x.size, int(counts.max(initial=0))), "", object)
        y[np.arange(y.shape[1]) < counts[:, np.newaxis]] = np.fromiter(found, object, len(found))
        return y.reshape(*x.shape, y.shape[1]), counts.reshape(x.shape)

    @property
    def _parts(self) -> Callable[[str], list[str]]:
        """What cuts a string; maps call methods of ``str`` soonest."""
        most = -1 if self.maxsplit is None else self.maxsplit
        if not self.delimiter:
            return str.split if most < 0 else lambda text: text.strip().split(maxsplit=most)
        return lambda text: text.split(self.delimiter, most) if text else []


@onnx("StringSplit", since=(20,))
def import_string_split(node: OnnxNode) -> Primitive:
    return StringSplit(node.attribute("delimiter", ""), node.attribute("maxsplit", None))
