"""Rows divided by their norm: ai.onnx.ml's Normalizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.where import Where

_NORMS = {"MAX": "max", "L1": "l1", "L2": "l2"}


@primitive
@frozen
class Normalizer(Composite):
    """x ``[rows, columns]`` or ``[columns]`` as float32, each row divided by its norm; a norm of 0 divides nothing.

    Attributes:
        norm: A function of :class:`~clgraph.ops.reduce.Reduce`.
    """

    norm: str = "max"

    kind: ClassVar[str] = "normalizer"

    def compose(self, c: Composition) -> Sequence[str]:
        x = c.add(Reorder(DType.F32), c.inputs[0])
        norm = c.add(Reduce(self.norm, (-1,)), x)
        zero, one = (c.constant(np.array(v, np.float32)) for v in (0, 1))
        divisor = c.add(Where(), c.add(Eltwise("equal"), norm, zero), one, norm)
        return (c.add(Eltwise("div"), x, divisor),)


@onnx("Normalizer", since=(1,), domain="ai.onnx.ml")
def import_normalizer(node: OnnxNode) -> Primitive:
    norm = node.attribute("norm", "MAX")
    if norm not in _NORMS:
        raise node.unsupported(f"the norm {norm!r} is not one of {', '.join(_NORMS)}")
    return Normalizer(_NORMS[norm])
