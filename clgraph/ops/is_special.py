"""Test of numbers for NaN and infinity: ONNX's IsNaN and IsInf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Permuted, Primitive, primitive
from clgraph.selector.general import REALS, General, bits_jit, launch, lines, table, value_words
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.storage import FEW_BITS
from clgraph.selector.views import View, space


@primitive
@frozen
class IsSpecial(Primitive):
    """Whether a number is one of those asked for: NaN, negative infinity, positive infinity."""

    nan: bool = False
    negative: bool = False
    positive: bool = False

    kind: ClassVar[str] = "is_special"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if not x.dtype.floating and x.dtype not in FEW_BITS:
            raise ShapeError(f"tests floating types for NaN and infinity, not {x.dtype}")
        if self.nan and (self.negative or self.positive):
            raise ShapeError("tests for NaN or for infinity, not for both")
        return (Layout(DType.BOOL, x.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if self.nan:
            return (np.isnan(x),)
        infinite = np.isinf(x)
        return (infinite & ((self.negative & (x < 0)) | (self.positive & (x > 0))),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(self, axes, len(inputs))

    def bits(self, dtype: DType) -> BitTest:
        """Return what is asked as a test of the bits of *dtype*, whose NaN are above infinity."""
        unsigned, width = {2: DType.U16, 4: DType.U32, 8: DType.U64}[dtype.itemsize], 8 * dtype.itemsize
        infinity = int(np.array(np.inf, dtype.numpy).view(unsigned.numpy))
        sign = 1 << width - 1
        if self.nan or (self.negative and self.positive):
            return BitTest(unsigned, sign - 1, infinity, self.nan)
        if not (self.negative or self.positive):
            return BitTest(unsigned, 0, 1)
        return BitTest(unsigned, 2 * sign - 1, infinity | (sign if self.negative else 0))


@frozen
class BitTest:
    """Whether ``bits & mask`` equals *value*, or is above it; bits are those of a *dtype*."""

    dtype: DType
    mask: int
    value: int
    above: bool = False


@onnx("IsNaN", since=(9, 13, 20))
def import_is_nan(node: OnnxNode) -> Primitive:
    return IsSpecial(nan=True)


@onnx("IsInf", since=(10, 20))
def import_is_inf(node: OnnxNode) -> Primitive:
    negative, positive = (bool(node.attribute(f"detect_{sign}", 1)) for sign in ("negative", "positive"))
    return IsSpecial(negative=negative, positive=positive)


@implements(IsSpecial, name="is_special.ref", serves=Serves(dtypes=REALS | {DType.BOOL}, mixed=True), general=True)
class IsSpecialRef(General[IsSpecial]):
    """One work-item an element, any rank."""

    @classmethod
    def plan(cls, q: Query[IsSpecial]) -> Plan:
        (y,), x, test = q.outputs, q.inputs[0], q.primitive.bits(q.inputs[0].dtype)
        s = space(y.shape, [View.of(y), View.of(x)])
        count, dims = lines(s, q)
        words = [w for v in (test.mask, test.value) for w in value_words(v, test.dtype)]
        numbers = table(dims, *s.views, [int(test.above), *words])
        jit = bits_jit(x.dtype.itemsize, len(s.dims))
        return Plan((launch("is_special/is_special_ref", jit, count, "in0", "out0", numbers),))
