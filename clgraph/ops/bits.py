"""Bits of integers: ONNX's BitShift, BitwiseNot and BitCast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, broadcast, primitive
from clgraph.ops.eltwise import Eltwise


@primitive
@frozen
class BitShift(Primitive):
    """Integers a shifted by b bits, with NumPy's broadcasting; a shift by all bits or more gives 0."""

    left: bool

    kind: ClassVar[str] = "bit_shift"

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        a, b = inputs
        if a.dtype != b.dtype or a.dtype.floating:
            raise ShapeError(f"a shift requires integers of one type, not {a.dtype} and {b.dtype}")
        return (a.with_shape(broadcast(a.shape, b.shape)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        a, b = inputs
        return (np.asarray(np.left_shift(a, b) if self.left else np.right_shift(a, b)),)


@primitive
@frozen
class BitwiseNot(Composite):
    """Every bit of integers turned over."""

    kind: ClassVar[str] = "bitwise_not"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        ones = np.invert(np.zeros((), c.layout(x).dtype.numpy))
        return (c.add(Eltwise("xor"), x, c.constant(np.asarray(ones))),)


@primitive
@frozen
class BitCast(Primitive):
    """The bytes of x as elements of another type of the same size."""

    dtype: DType

    kind: ClassVar[str] = "bit_cast"
    keeps_types: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if x.dtype.itemsize != self.dtype.itemsize:
            raise ShapeError(f"{x.dtype} and {self.dtype} have different sizes")
        return (Layout(self.dtype, x.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].copy().view(self.dtype.numpy),)


@onnx("BitShift", since=(11, 28))
def import_bit_shift(node: OnnxNode) -> Primitive:
    return BitShift(node.attribute("direction", "LEFT") == "LEFT")


@onnx("BitwiseNot", since=(18,))
def import_bitwise_not(node: OnnxNode) -> Primitive:
    return BitwiseNot()


@onnx("BitCast", since=(26,))
def import_bit_cast(node: OnnxNode) -> Primitive:
    return BitCast(node.attribute("to", DType.F32))
