"""The steps of 8 bits that values lie on: a scale, and the integers that it multiplies."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.node import Value
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.static_quantize import BYTES
from clgraph.passes.quantization.float_groups import hands_on


@frozen
class Steps:
    """The values that 8 bits have: *scale* times the integers from *low* to *low* + 255."""

    scale: float
    low: int

    def zero(self, dtype: DType) -> int:
        """Return the byte of *dtype*, I8 or U8, that stands for 0."""
        return dtype.bounds[0] - self.low


def steps_of(value: Value) -> Steps | None:
    """Return the steps that *value* lies on, ``None`` where that is not known."""
    while (node := value.producer) is not None and hands_on(node):
        value = node.inputs[0]
    if node is not None and isinstance(node.primitive, Concat) and not node.fused:
        first, *others = map(steps_of, node.inputs)
        return first if all(other == first for other in others) else None
    if node is None or node.fused or node.output.layout.dtype != DType.F32:
        return None
    p = node.primitive
    if isinstance(p, Activation) and p.function == "fake_quantize":
        return Steps(p.alpha, int(p.beta))
    if not isinstance(p, Dequantize) or node.inputs[0].layout.dtype not in BYTES:
        return None
    scale, *zero = (v.constant for v in node.inputs[1:])
    if scale is None or scale.size != 1 or any(z is None for z in zero) or not 0 < float(scale.reshape(-1)[0]) < np.inf:
        return None
    start = int(zero[0].reshape(-1)[0]) if zero and zero[0] is not None else 0
    return Steps(float(scale.reshape(-1)[0]), int(np.iinfo(node.inputs[0].layout.dtype.numpy).min) - start)


def given_bytes(value: Value, dtype: DType) -> Value | None:
    """Return the bytes of *dtype* that *value*, which lies on known steps, is made of, if it is made of such."""
    made = value.producer
    reads = made is not None and isinstance(made.primitive, Dequantize) and made.inputs[0].layout.dtype == dtype
    return made.inputs[0] if made is not None and reads else None
