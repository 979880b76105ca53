"""Strings put together, element by element: ONNX's StringConcat."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.broadcasting import broadcast
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive


@primitive
@frozen
class StringConcat(OfHostValues):
    """``y`` is the text of input 0 followed by that of input 1, with NumPy's broadcasting."""

    kind: ClassVar[str] = "string_concat"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        first, second = inputs
        broadcast(first.shape, second.shape)
        return (np.asarray(first + second, object),)


@onnx("StringConcat", since=(20,))
def import_string_concat(node: OnnxNode) -> Primitive:
    return StringConcat()
