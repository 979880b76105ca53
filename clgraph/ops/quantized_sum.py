"""The sum of values on known steps as ONNX Runtime's QLinearAdd rounds it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.primitive import Array, primitive
from clgraph.ops.on_steps import OnSteps, OnStepsRef
from clgraph.selector.general import FLOATS
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.post import FUSABLE

_LEFT, _RIGHT, _SUM = range(3)


@primitive
@frozen
class QuantizedSum(OnSteps):
    """``y = a + b`` of values on known steps.

    ONNX Runtime computes ``t = fma(p, r, fma(q, s, zero - fma(p0, r, q0 s)))`` of the integers p of a and q of b, where
    r and s are their scales divided by the result's, p0, q0 and zero the zero points; the nearest integer to t is that
    of the result. Rounding a sum of floats (DequantizeLinear, Add, QuantizeLinear) makes another integer of one pair in
    10^5, beside a half.
    """

    kind: ClassVar[str] = "quantized_sum"
    function: ClassVar[str] = "add"

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

    def rounded(self, p: Array, q: Array) -> Array:
        # The product of two float32 is a float64, and one rounding to float32 follows the sum.
        inner = (q.astype(np.float64) * self.ratios[_RIGHT] + self.fixed).astype(np.float32)
        return np.asarray(np.rint((p.astype(np.float64) * self.ratios[_LEFT] + inner).astype(np.float32)))


@implements(QuantizedSum, name="quantized_sum.ref", serves=Serves(dtypes=FLOATS, fuses=FUSABLE), general=True)
class QuantizedSumRef(OnStepsRef):
    """A sum of floats, one work-item an element."""
