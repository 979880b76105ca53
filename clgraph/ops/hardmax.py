"""One where an axis has its first maximum, else zero: ONNX's Hardmax."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.attributes import positive_axis
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.arg import ArgExtremum
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape


@primitive
@frozen
class Hardmax(Composite):
    """``y = 1`` at the first maximum along *axis*; with *flatten* along all axes from there on, as before opset 13."""

    axis: int = -1
    flatten: bool = False

    kind: ClassVar[str] = "hardmax"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        layout = c.layout(x)
        axis = positive_axis(self.axis, layout.rank)
        shape = layout.shape
        if layout.count == 0:
            return (c.add(Reshape(shape, zero_is_zero=True), x),)
        if self.flatten:
            shape, axis = (prod(shape[:axis]), prod(shape[axis:])), 1
            x = c.add(Reshape(shape, zero_is_zero=True), x)
        best = c.add(ArgExtremum(False, axis, True, False), x)
        places = np.arange(shape[axis], dtype=np.int64).reshape(-1, *(1,) * (len(shape) - axis - 1))
        y = c.add(Reorder(layout.dtype), c.add(Eltwise("equal"), best, c.constant(places)))
        return (c.add(Reshape(layout.shape, zero_is_zero=True), y) if self.flatten else y,)


@onnx("Hardmax", since=(1, 11, 13))
def import_hardmax(node: OnnxNode) -> Primitive:
    flatten = node.since < 13
    return Hardmax(node.attribute("axis", 1 if flatten else -1), flatten)
