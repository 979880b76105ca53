"""Rows with one value at an index and another elsewhere: ONNX's OneHot."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.attributes import known_ints, positive_axis
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.scatter_elements import ScatterElements
from clgraph.ops.slice import Slice
from clgraph.ops.where import Where

COMPARED = 1 << 14
"""Elements up to which every place is compared with the index: more are filled, and those at the index replaced."""


@primitive
@frozen
class OneHot(Composite):
    """Along a new *axis*, the second of two values where its place is the index, else the first.

    Inputs: indices, the size of the axis (one element), the values (off, on). An index below 0 counts from the back;
    one that is outside then leaves its row at the first value.
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
        off, on = (c.add(Reshape(()), c.add(Slice((i,), (i + 1,)), values)) for i in (0, 1))
        made = (*shape[:axis], depth, *shape[axis:])
        spread = Reshape((*shape[:axis], 1, *shape[axis:]), zero_is_zero=True)
        if 0 < prod(made) <= COMPARED:
            # One that is outside is no place when it is counted from the front, either.
            negative = c.add(Eltwise("less"), indices, c.constant(np.array(0, np.int64)))
            turned = c.add(Eltwise("add"), indices, c.constant(np.array(depth, np.int64)))
            places = c.add(spread, c.add(Where(), negative, turned, indices))
            along = np.arange(depth, dtype=np.int64).reshape(-1, *(1,) * (len(shape) - axis))
            return (c.add(Where(), c.add(Eltwise("equal"), places, c.constant(along)), on, off),)
        everywhere = c.add(Expand(made), off)
        if not depth:
            return (everywhere,)
        inside = c.add(Eltwise("less"), indices, c.constant(np.array(depth, np.int64)))
        reaching = c.add(Eltwise("greater_equal"), indices, c.constant(np.array(-depth, np.int64)))
        valid = c.add(Eltwise("and"), inside, reaching)
        places = c.add(spread, c.add(Where(), valid, indices, c.constant(np.array(0, np.int64))))
        given = c.add(spread, c.add(Where(), valid, on, off))
        return (c.add(ScatterElements(axis), everywhere, places, given),)


@onnx("OneHot", since=(9, 11, 28))
def import_one_hot(node: OnnxNode) -> Primitive:
    return OneHot(node.attribute("axis", -1))
