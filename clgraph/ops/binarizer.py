"""Whether numbers are above a threshold, as numbers: ai.onnx.ml's Binarizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder


@primitive
@frozen
class Binarizer(Composite):
    """``y`` is 1 where x is above *threshold*, else 0, in the type of x."""

    threshold: float = 0.0

    kind: ClassVar[str] = "binarizer"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        dtype = c.layout(x).dtype
        # Of integers, what is above a threshold is above the next lower integer.
        limit = self.threshold if dtype.floating else np.floor(self.threshold)
        above = c.add(Eltwise("greater"), x, c.constant(np.array(limit).astype(dtype.numpy)))
        return (c.add(Reorder(dtype), above),)


@onnx("Binarizer", since=(1,), domain="ai.onnx.ml")
def import_binarizer(node: OnnxNode) -> Primitive:
    return Binarizer(node.attribute("threshold", 0.0))
