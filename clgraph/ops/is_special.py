"""Test of numbers for NaN and infinity: ONNX's IsNaN and IsInf."""

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
from clgraph.ops.fill import Fill


@primitive
@frozen
class IsInf(Composite):
    """Whether x is infinite, with a sign that counts."""

    negative: bool = True
    positive: bool = True

    kind: ClassVar[str] = "is_inf"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        layout = c.layout(x)
        if not (self.negative or self.positive):
            return (c.add(Fill(False, DType.BOOL, layout.shape)),)
        infinite = np.array(np.inf if self.positive else -np.inf, layout.dtype.numpy)
        both = self.negative and self.positive
        return (c.add(Eltwise("equal"), c.add(Activation("abs"), x) if both else x, c.constant(infinite)),)


@onnx("IsNaN", since=(9, 13, 20))
def import_is_nan(node: OnnxNode) -> Sequence[str]:
    (same,) = node.emit(Eltwise("equal"), node.inputs[0], node.inputs[0])
    return node.emit(Activation("not"), same)


@onnx("IsInf", since=(10, 20))
def import_is_inf(node: OnnxNode) -> Primitive:
    return IsInf(bool(node.attribute("detect_negative", 1)), bool(node.attribute("detect_positive", 1)))
