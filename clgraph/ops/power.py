"""Powers whose base and exponent have two element types: ONNX's Pow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.align import aligned
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder


@primitive
@frozen
class Power(Composite):
    """``y = a ** b`` in the element type of a, computed in one that holds both, as kernels do it.

    Integers to the power of floats are computed in float64 and cut towards zero, as ONNX Runtime does it.
    """

    kind: ClassVar[str] = "power"

    def compose(self, c: Composition) -> Sequence[str]:
        a, b = c.inputs
        base, exponent = c.layout(a).dtype, c.layout(b).dtype
        common = _common(base, exponent, c.values[1] if c.values else None)
        if common is None:
            return (c.add(Eltwise("pow"), a, b),)
        a, b = (x if c.layout(x).dtype == common else c.add(Reorder(common), x) for x in (a, b))
        y = c.add(Eltwise("pow"), a, b)
        return (y if base == common else c.add(Reorder(base), y),)


def _common(base: DType, exponent: DType, known: Array | None) -> DType | None:
    """Return the type to compute in; ``None`` where kernels take the two as they are."""
    if base == exponent:
        return None
    if not base.floating:
        if known is not None and np.array_equal(known, known.astype(base.numpy)):
            return base
        return DType.F64 if exponent.floating else None
    return DType.F64 if DType.F64 in (base, exponent) else DType.F32


@onnx("Pow", since=(1, 7, 12, 13, 15))
def import_pow(node: OnnxNode) -> Primitive | Sequence[str]:
    if node.since < 7:
        return node.emit(Eltwise("pow"), node.inputs[0], aligned(node))
    return Power() if node.since >= 12 and node.type_of(0) != node.type_of(1) else Eltwise("pow")
