"""The shape of a tensor as data: known as soon as the shapes are bound, so that it never reaches a device."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive


@primitive
@frozen
class ShapeOf(Primitive):
    """The sizes ``start … end`` of x as int64; *end* ``None``: to the last. Negative ones count from the back."""

    start: int = 0
    end: int | None = None

    kind: ClassVar[str] = "shape"
    shapes_only: ClassVar[bool] = True
    computes_unbound: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (Layout(DType.I64, (len(inputs[0].shape[self.start : self.end]),)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.array(inputs[0].shape[self.start : self.end], np.int64),)

    def evaluate(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> tuple[Array, ...] | None:
        return (np.array(inputs[0].shape[self.start : self.end], np.int64),)


@primitive
@frozen
class Size(Primitive):
    """How many elements x has, as an int64 scalar."""

    kind: ClassVar[str] = "size"
    shapes_only: ClassVar[bool] = True
    computes_unbound: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (Layout(DType.I64, ()),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.array(inputs[0].size, np.int64),)

    def evaluate(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> tuple[Array, ...] | None:
        return (np.array(inputs[0].count, np.int64),)


@primitive
@frozen
class EveryPlace(Primitive):
    """``y[axis][i]`` is the place along *axis* of the i-th element of x in row-major order; int64."""

    kind: ClassVar[str] = "every_place"
    shapes_only: ClassVar[bool] = True
    computes_unbound: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (Layout(DType.I64, (inputs[0].rank, inputs[0].count)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (_places(inputs[0].shape),)

    def evaluate(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> tuple[Array, ...] | None:
        return (_places(inputs[0].shape),)


def _places(shape: Sequence[int]) -> Array:
    return np.indices(shape, np.int64).reshape(len(shape), prod(shape))


@onnx("Shape", since=(1, 13, 15, 19, 21, 23, 24, 25))
def import_shape(node: OnnxNode) -> Primitive:
    return ShapeOf(node.attribute("start", 0), node.attribute("end", None))


@onnx("Size", since=(1, 13, 19, 21, 23, 24, 25))
def import_size(node: OnnxNode) -> Primitive:
    return Size()
