"""The product of values on known steps as ONNX Runtime's QLinearMul rounds it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.primitive import Array, primitive
from clgraph.ops.on_steps import OnSteps, OnStepsRef
from clgraph.selector.general import FLOATS
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.post import FUSABLE

_LEFT, _RIGHT, _PRODUCT = range(3)


@primitive
@frozen
class QuantizedProduct(OnSteps):
    """``y = a b`` of values on known steps.

    ONNX Runtime computes ``t = (p - p0) (q - q0) r + zero`` of the integers p of a and q of b, where r is the product
    of their scales divided by the result's, p0, q0 and zero the zero points, rounded behind each step; the nearest
    integer to t is that of the result. A half is so rounded to an even integer, where QuantizeLinear rounds it to an
    even number of steps: another one where the zero point is odd.
    """

    kind: ClassVar[str] = "quantized_product"
    function: ClassVar[str] = "mul"

    @property
    def ratio(self) -> float:
        """The steps of the result in a step of a times a step of b, float32."""
        left, right, whole = (np.float32(s) for s in self.scales)
        return float(left * right / whole)

    def rounded(self, p: Array, q: Array) -> Array:
        steps = (p - self.zeros[_LEFT]) * (q - self.zeros[_RIGHT])
        scaled = steps.astype(np.float32) * np.float32(self.ratio)
        return np.asarray(np.rint(scaled + np.float32(self.zeros[_PRODUCT])))


@implements(QuantizedProduct, name="quantized_product.ref", serves=Serves(dtypes=FLOATS, fuses=FUSABLE), general=True)
class QuantizedProductRef(OnStepsRef):
    """A product of floats, one work-item an element."""
