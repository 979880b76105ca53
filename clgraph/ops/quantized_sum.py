"""The sum of values on known steps as ONNX Runtime's QLinearAdd rounds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.broadcasting import broadcast
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Permuted, PostOperation, Primitive, primitive
from clgraph.selector.general import (
    FLOATS,
    General,
    float_jit,
    launch,
    lines,
    post_arguments,
    post_views,
    table,
)
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE, post_codes
from clgraph.selector.query import Query
from clgraph.selector.views import View, space

_LEFT, _RIGHT, _SUM = range(3)


@primitive
@frozen
class QuantizedSum(Primitive):
    """``y = a + b`` where a and b lie on steps, with the nearest step of its own as result.

    ONNX Runtime computes ``t = fma(p, r, fma(q, s, zero - fma(p0, r, q0 s)))`` of the integers p of a and q of b, where
    r and s are their scales divided by the result's, p0, q0 and zero the zero points; the nearest integer to t is that
    of the result. Rounding a sum of floats (DequantizeLinear, Add, QuantizeLinear) makes another integer of one pair in
    10^5, beside a half.

    Results are not bounded: what reads them does that. Ends of products of bytes keep that order; all other kernels add
    floats, which is within half a step of it, and within one when it is rounded.

    Attributes:
        scales, zeros: Scale and zero point of a, of b and of the result.
    """

    scales: tuple[float, float, float]
    zeros: tuple[int, int, int]

    kind: ClassVar[str] = "quantized_sum"
    holds_sizes: ClassVar[bool] = False
    elementwise: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        a, b = inputs
        if not a.dtype.floating or a.dtype != b.dtype:
            raise ShapeError(f"requires floats of one type, not {a.dtype} and {b.dtype}")
        try:
            return (Layout(a.dtype, broadcast(a.shape, b.shape)),)
        except ValueError as error:
            raise ShapeError(f"{list(a.shape)} and {list(b.shape)} do not broadcast") from error

    @property
    def ratios(self) -> tuple[float, float]:
        """The scales of a and b in steps of the result, float32."""
        whole = np.float32(self.scales[_SUM])
        return float(np.float32(self.scales[_LEFT]) / whole), float(np.float32(self.scales[_RIGHT]) / whole)

    @property
    def fixed(self) -> float:
        """What t is where p and q are 0, float32."""
        (left, right), (zero, other, whole) = self.ratios, self.zeros
        return float(np.float32(whole) - np.float32(left * zero + float(np.float32(right * other))))

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        # The product of two float32 is a float64, and one rounding to float32 follows the sum.
        pairs = zip(inputs, self.scales, self.zeros, strict=False)
        left, right = (np.rint(v.astype(np.float64) / np.float32(scale)) + zero for v, scale, zero in pairs)
        inner = (right * self.ratios[_RIGHT] + self.fixed).astype(np.float32)
        whole = np.rint((left * self.ratios[_LEFT] + inner).astype(np.float32)) - np.float32(self.zeros[_SUM])
        return (np.asarray(whole * np.float32(self.scales[_SUM])).astype(inputs[0].dtype),)

    def as_post(self, slot: int) -> PostOperation | None:
        return PostOperation("add")

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(self, axes, len(inputs))


@implements(QuantizedSum, name="quantized_sum.ref", serves=Serves(dtypes=FLOATS, fuses=FUSABLE), general=True)
class QuantizedSumRef(General[QuantizedSum]):
    """A sum of floats, one work-item an element."""

    @classmethod
    def plan(cls, q: Query[QuantizedSum]) -> Plan:
        (y,), (a, b) = q.outputs, q.own
        s = space(y.shape, [View.of(y), View.of(a, y.shape), View.of(b, y.shape), *post_views(q)])
        posts = post_arguments(q, s.views[3:], len(s.dims))
        count, dims = lines(s, q)
        numbers = table(dims, *s.views[:3], post_codes()["add"])
        jit = float_jit(y.dtype, len(s.dims))
        return Plan((launch("eltwise/eltwise_ref", jit, count, "in0", "in1", "out0", numbers, *posts),))
