"""Running products along an axis: ONNX's CumProd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from clgraph.core.layout import Layout
from clgraph.graph.attributes import known_ints, positive_axis
from clgraph.graph.primitive import Array, Bound, OnnxNode, Primitive, onnx, primitive


@primitive
@dataclass(frozen=True, slots=True)
class CumulativeProduct(Primitive):
    """``y[i] = x[0] * … * x[i]`` along *axis*; without x[i] when *exclusive*, from the end when *reverse*.

    Attributes:
        axis: ``None`` before ``bind``: the value of input 1.
    """

    axis: int | None = None
    exclusive: bool = False
    reverse: bool = False

    kind: ClassVar[str] = "cumulative_product"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        axis = known_ints(values, 1, "axis")[0] if self.axis is None else self.axis
        return Bound(replace(self, axis=positive_axis(axis, inputs[0].rank)), (0,))

    def value_slots(self) -> tuple[int, ...]:
        return (1,) if self.axis is None else ()

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (inputs[0].plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,), axis = inputs, self.axis or 0
        exact = np.result_type(x.dtype, np.float32) if x.dtype.kind == "f" else x.dtype
        turned = np.moveaxis(np.flip(x, axis) if self.reverse else x, axis, 0)
        total = np.cumprod(turned, 0, dtype=exact)
        if self.exclusive:
            total = np.concatenate([np.ones_like(total[:1]), total[:-1]])
        y = np.moveaxis(total, 0, axis)
        return (np.ascontiguousarray(np.flip(y, axis) if self.reverse else y).astype(x.dtype),)


@onnx("CumProd", since=(26,))
def import_cumprod(node: OnnxNode) -> Primitive:
    return CumulativeProduct(None, bool(node.attribute("exclusive", 0)), bool(node.attribute("reverse", 0)))
