"""Columns moved and scaled: ai.onnx.ml's Scaler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder


@primitive
@frozen
class Scaler(Composite):
    """``y = (x - offset) * scale`` as float32, one of each for all columns (the last axis) or one a column."""

    offset: tuple[float, ...]
    scale: tuple[float, ...]

    kind: ClassVar[str] = "scaler"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        columns = c.layout(x).shape[-1:]
        for what, numbers in (("offset", self.offset), ("scale", self.scale)):
            if len(numbers) != 1 and columns != (len(numbers),):
                raise ShapeError(
                    f"{what} has {len(numbers)} numbers; expected one, or one for each of {columns} columns"
                )
        offset, scale = (c.constant(np.array(v, np.float32)) for v in (self.offset, self.scale))
        moved = c.add(Eltwise("sub"), c.add(Reorder(DType.F32), x), offset)
        return (c.add(Eltwise("mul"), moved, scale),)


@onnx("Scaler", since=(1,), domain="ai.onnx.ml")
def import_scaler(node: OnnxNode) -> Primitive:
    return Scaler(node.attribute("offset", (0.0,)), node.attribute("scale", (1.0,)))
