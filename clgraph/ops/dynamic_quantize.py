"""Floats as 8-bit integers whose scale comes from their range: ONNX's DynamicQuantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.primitive import OnnxNode, Primitive, onnx, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantize import Quantize
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.where import Where


@primitive
@dataclass(frozen=True, slots=True)
class DynamicQuantize(Composite):
    """x as U8, its scale and its zero point, so that the range from the least to the greatest of x and 0 is covered."""

    kind: ClassVar[str] = "dynamic_quantize"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        every = tuple(range(c.layout(x).rank))
        high, low = (c.add(Reduce(f, every, keepdims=False), x) for f in ("max", "min"))
        high, low = c.add(Activation("relu"), high), c.add(Eltwise("min"), low, c.constant(np.array(0, np.float32)))
        width = c.add(Eltwise("sub"), high, low)
        nothing = c.add(Eltwise("equal"), high, low)
        width = c.add(Where(), nothing, c.constant(np.array(1, np.float32)), width)
        scale = c.add(Eltwise("div"), width, c.constant(np.array(255, np.float32)))
        zero = c.add(Activation("neg"), c.add(Eltwise("div"), low, scale))
        zero = c.add(Activation("clip", 0.0, 255.0), c.add(Activation("round"), zero))
        zero = c.add(Reorder(DType.U8), zero)
        return c.add(Quantize(), x, scale, zero), scale, zero


@onnx("DynamicQuantizeLinear", since=(11,))
def import_dynamic_quantize(node: OnnxNode) -> Primitive | Sequence[str]:
    return node.emit(DynamicQuantize(), *node.inputs, outputs=3)
