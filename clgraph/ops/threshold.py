"""A function that leaves out a range of numbers: ONNX's Shrink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder
from clgraph.ops.where import Where


@primitive
@frozen
class Threshold(Composite):
    """``y = x - shift`` where x is above *high*, ``x + shift`` where it is below *low*, else 0.

    Of integers and of halves, which hold neither limit nor shift, it is computed in float32 and rounded, or truncated.
    """

    high: float
    low: float
    shift: float = 0.0

    kind: ClassVar[str] = "threshold"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        given = c.layout(x).dtype
        if given not in (DType.F32, DType.F64):
            return (c.add(Reorder(given), c.add(self, c.add(Reorder(DType.F32), x))),)
        dtype = given.numpy
        zero, shift = c.constant(np.zeros((), dtype)), c.constant(np.array(self.shift, np.float64).astype(dtype))
        above = c.add(Eltwise("greater"), x, c.constant(np.array(self.high, np.float64).astype(dtype)))
        y = c.add(Where(), above, c.add(Eltwise("sub"), x, shift), zero)
        below = c.add(Eltwise("less"), x, c.constant(np.array(self.low, np.float64).astype(dtype)))
        return (c.add(Where(), below, c.add(Eltwise("add"), x, shift), y),)


@onnx("Shrink", since=(9,))
def import_shrink(node: OnnxNode) -> Primitive:
    limit = node.attribute("lambd", 0.5)
    return Threshold(limit, -limit, node.attribute("bias", 0.0))
