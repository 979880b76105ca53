"""A tensor of one value: ONNX's ConstantOfShape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.attributes import known_ints
from clgraph.graph.primitive import Array, Bound, OnnxNode, Primitive, onnx, primitive


@primitive
@dataclass(frozen=True, slots=True)
class Fill(Primitive):
    """Every element is *value*; takes no input once bound.

    Attributes:
        shape: Of the result; ``None`` before ``bind``: the value of input 0.
    """

    value: float | int | bool
    dtype: DType
    shape: tuple[int, ...] | None = None

    kind: ClassVar[str] = "fill"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(self if self.shape is not None else replace(self, shape=known_ints(values, 0, "shape")), ())

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (Layout(self.dtype, self.shape or ()),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.full(self.shape or (), self.value, self.dtype.numpy),)


@onnx("ConstantOfShape", since=(9, 20, 21, 23, 24, 25))
def import_constant_of_shape(node: OnnxNode) -> Primitive:
    value = np.asarray(node.attribute("value", np.zeros(1, np.float32)))
    return Fill(value.ravel()[0].item(), DType.of(value.dtype))
