"""Floats as 8-bit integers whose scale comes from their range: ONNX's DynamicQuantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantize import Quantize
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder


@primitive
@frozen
class DynamicQuantize(Composite):
    """x as U8, its scale and its zero point, so that the range from the least to the greatest of x and 0 is covered.

    A range that is nothing, or so small that its scale would be 0, has the scale 1. A NaN makes the scale NaN.
    """

    kind: ClassVar[str] = "dynamic_quantize"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        high, low = (self._reduced(c, f, x) for f in ("max", "min"))
        high, low = c.add(Activation("relu"), high), c.add(Eltwise("min"), low, c.constant(np.array(0, np.float32)))
        width = c.add(Eltwise("sub"), high, low)
        scale = c.add(Eltwise("div"), width, c.constant(np.array(255, np.float32)))
        scale = c.add(Eltwise("add"), scale, c.add(Activation("linear", -1.0, 1.0), c.add(Activation("sign"), scale)))
        zero = c.add(Activation("neg"), c.add(Eltwise("div"), low, scale))
        zero = c.add(Activation("clip", 0.0, 255.0), c.add(Activation("round"), zero))
        zero = c.add(Reorder(DType.U8), zero)
        return c.add(Quantize(), x, scale, zero), scale, zero

    def _reduced(self, c: Composition, function: str, x: str) -> str:
        """Add the reduction of x: of rows, or of pixels, which a device computes side by side, then of what is left."""
        rank = c.layout(x).rank
        if rank > 1:
            first = range(2 if rank > 2 else 1, rank)
            x = c.add(Reduce(function, tuple(first), keepdims=False), x)
            rank -= len(first)
        return c.add(Reduce(function, tuple(range(rank)), keepdims=False), x) if rank else x


@onnx("DynamicQuantizeLinear", since=(11,))
def import_dynamic_quantize(node: OnnxNode) -> Primitive | Sequence[str]:
    return node.emit(DynamicQuantize(), *node.inputs, outputs=3)
