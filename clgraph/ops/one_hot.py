"""Rows with one value at an index and another elsewhere: ONNX's OneHot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.attributes import known_ints, positive_axis
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.where import Where


@primitive
@frozen
class OneHot(Composite):
    """Along a new *axis*, the second of two values where its place is the index, else the first.

    Inputs: indices, the size of the axis (one element), the values (off, on). An index below 0 counts from the back.
    """

    axis: int = -1

    kind: ClassVar[str] = "one_hot"

    def value_slots(self) -> tuple[int, ...]:
        return (1,)

    def compose(self, c: Composition) -> Sequence[str]:
        indices, _, values = c.inputs
        depth, shape = known_ints(c.values, 1, "depth")[0], c.layout(indices).shape
        axis = positive_axis(self.axis, len(shape) + 1)
        if c.layout(indices).dtype != DType.I64:
            indices = c.add(Reorder(DType.I64), indices)
        whole = c.add(Eltwise("mod"), indices, c.constant(np.array(depth, np.int64)))
        inside = c.add(Eltwise("less"), indices, c.constant(np.array(depth, np.int64)))
        reaching = c.add(Eltwise("greater_equal"), indices, c.constant(np.array(-depth, np.int64)))
        valid = c.add(Eltwise("and"), inside, reaching)
        spread = (*shape[:axis], 1, *shape[axis:])
        place = c.add(
            Reshape(spread, zero_is_zero=True), c.add(Where(), valid, whole, c.constant(np.array(-1, np.int64)))
        )
        places = np.arange(depth, dtype=np.int64).reshape(-1, *(1,) * (len(shape) - axis))
        off, on = (c.add(Reshape(()), c.add(Slice((i,), (i + 1,)), values)) for i in (0, 1))
        return (c.add(Where(), c.add(Eltwise("equal"), place, c.constant(places)), on, off),)


@onnx("OneHot", since=(9, 11, 28))
def import_one_hot(node: OnnxNode) -> Primitive:
    return OneHot(node.attribute("axis", -1))
