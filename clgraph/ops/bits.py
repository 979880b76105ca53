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
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.general import General, move
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View


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
    return Eltwise("shift_left" if node.attribute("direction", "LEFT") == "LEFT" else "shift_right")


@onnx("BitwiseNot", since=(18,))
def import_bitwise_not(node: OnnxNode) -> Primitive:
    return BitwiseNot()


@onnx("BitCast", since=(26,))
def import_bit_cast(node: OnnxNode) -> Primitive:
    return BitCast(node.attribute("to", DType.F32))


@implements(BitCast, name="bit_cast.ref", serves=Serves(dtypes=frozenset(DType), mixed=True), general=True)
class BitCastRef(General[BitCast]):
    """A copy of the bytes."""

    @classmethod
    def plan(cls, q: Query[BitCast]) -> Plan:
        (y,) = q.outputs
        return Plan((move(y, ("in0", View.of(q.inputs[0])), ("out0", View.of(y)), y.shape),))
