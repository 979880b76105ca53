"""The largest or smallest elements along an axis, and where they stand: ONNX's TopK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known_ints, positive_axis
from clgraph.graph.primitive import Array, Bound, OnnxNode, Primitive, onnx, primitive


@primitive
@dataclass(frozen=True, slots=True)
class TopK(Primitive):
    """The first *k* elements along *axis*, best first, and their places (int64); of equal ones the first comes first.

    Attributes:
        k: ``None`` before ``bind``: the value of input 1.
        largest: Whether the largest are best.
    """

    axis: int = -1
    largest: bool = True
    k: int | None = None

    kind: ClassVar[str] = "top_k"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        k = _count(known_ints(values, 1, "k")) if self.k is None else self.k
        return Bound(replace(self, axis=positive_axis(self.axis, inputs[0].rank), k=k), (0,))

    def value_slots(self) -> tuple[int, ...]:
        return (1,) if self.k is None else ()

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,), k = inputs, self.k or 0
        if not x.rank:
            raise ShapeError("a scalar has no axis to sort along")
        axis = positive_axis(self.axis, x.rank)
        if not 0 <= k <= x.shape[axis]:
            raise ShapeError(f"{list(x.shape)} does not have {k} elements along axis {axis}")
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        return x.with_shape(shape), Layout(DType.I64, shape)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, k, axis = inputs[0], self.k or 0, positive_axis(self.axis, inputs[0].ndim)
        if self.largest:
            order = np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
            order = x.shape[axis] - 1 - order
        else:
            order = np.argsort(x, axis, kind="stable")
        places = order.take(np.arange(k), axis).astype(np.int64)
        return np.take_along_axis(x, places, axis), places

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 10.0 * inputs[0].count


def _count(k: tuple[int, ...]) -> int:
    if len(k) != 1:
        raise ShapeError(f"k is one number, not {list(k)}")
    return k[0]


@onnx("TopK", since=(1, 10, 11, 24))
def import_top_k(node: OnnxNode) -> Primitive:
    return TopK(node.attribute("axis", -1), bool(node.attribute("largest", 1)), node.attribute("k", None))
