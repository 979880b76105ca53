"""The sum or product of two tensors of bytes with scales: ONNX Runtime's QLinearAdd and QLinearMul."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.broadcasting import broadcast
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Permuted, Primitive, primitive
from clgraph.ops.byte_lookup import BYTES
from clgraph.ops.on_steps import OnSteps
from clgraph.ops.quantized_product import QuantizedProduct
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.selector.general import General, bits, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class QuantizedPair(Primitive):
    """``y = saturate(t)`` for the integer t that :class:`OnSteps` makes of two bytes. Inputs: a and b, of one type.

    Attributes:
        function: ``add`` or ``mul``.
        scales, zeros: Scale and zero point of a, of b and of the result.
    """

    function: str
    scales: tuple[float, float, float]
    zeros: tuple[int, int, int]

    kind: ClassVar[str] = "quantized_pair"
    holds_sizes: ClassVar[bool] = False
    elementwise: ClassVar[bool] = True

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        """Four numbers of the kernels: both ratios and the fixed part of a sum; ratio and zero points of a product."""
        order, (left, right, whole) = self.order, map(float, self.zeros)
        if isinstance(order, QuantizedSum):
            return (*order.ratios, order.fixed, 0.0)
        assert isinstance(order, QuantizedProduct)
        return (order.ratio, whole, left, right)

    @property
    def order(self) -> OnSteps:
        """The sum or product of quantised tensors whose order of operations, and so whose rounding, is followed."""
        return {"add": QuantizedSum, "mul": QuantizedProduct}[self.function](self.scales, self.zeros)

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        a, b = inputs
        if a.dtype not in BYTES or a.dtype != b.dtype:
            raise ShapeError(f"requires u8 or i8, both the same, not {a.dtype} and {b.dtype}")
        try:
            return (Layout(a.dtype, broadcast(a.shape, b.shape)),)
        except ValueError as error:
            raise ShapeError(f"{list(a.shape)} and {list(b.shape)} do not broadcast") from error

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        a, b = (v.astype(np.float32) for v in inputs)
        low, high = DType.of(inputs[0].dtype).bounds
        return (np.clip(self.order.rounded(a, b), low, high).astype(inputs[0].dtype),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(self, axes, len(inputs))


@implements(QuantizedPair, name="quantized_pair.ref", serves=Serves(dtypes=BYTES), general=True)
class QuantizedPairRef(General[QuantizedPair]):
    """One work-item an element."""

    @classmethod
    def plan(cls, q: Query[QuantizedPair]) -> Plan:
        (y,), (a, b), f = q.outputs, q.own, q.primitive
        s = space(y.shape, [View.of(y), View.of(a, y.shape), View.of(b, y.shape)])
        jit = Jit().define(RANK=len(s.dims), T=y.dtype, PRODUCT=int(f.function == "mul"))
        numbers = table(s.dims, *s.views, [bits(v) for v in f.numbers])
        return Plan((launch("quantized_pair/quantized_pair_ref", jit, y.count, "in0", "in1", "out0", numbers),))
