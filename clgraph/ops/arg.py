"""Where the largest or smallest element along an axis stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.primitive import Array, Bound, OnnxNode, Primitive, onnx, primitive
from clgraph.ops.reduce import reduced_shape


@primitive
@dataclass(frozen=True, slots=True)
class ArgExtremum(Primitive):
    """The int64 index of the largest (or smallest) element along *axis*: of equal ones the first, or the last."""

    smallest: bool = False
    axis: int = 0
    keepdims: bool = True
    last: bool = False

    kind: ClassVar[str] = "arg"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(replace(self, axis=positive_axis(self.axis, inputs[0].rank)), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        axis = positive_axis(self.axis, x.rank)
        if x.rank and x.shape[axis] == 0:
            raise ShapeError(f"axis {axis} of {list(x.shape)} has no element")
        return (Layout(DType.I64, reduced_shape(x.shape, (axis,), keepdims=self.keepdims)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        pick = np.argmin if self.smallest else np.argmax
        turned = np.flip(x, self.axis) if self.last else x
        at = pick(turned, axis=self.axis, keepdims=self.keepdims)
        return (np.asarray(x.shape[self.axis] - 1 - at if self.last else at, np.int64),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return float(inputs[0].count)


@onnx("ArgMax", since=(1, 11, 12, 13))
@onnx("ArgMin", since=(1, 11, 12, 13))
def import_arg(node: OnnxNode) -> Primitive:
    last = bool(node.attribute("select_last_index", 0))
    keepdims = bool(node.attribute("keepdims", 1))
    return ArgExtremum(node.op_type == "ArgMin", node.attribute("axis", 0), keepdims, last)
