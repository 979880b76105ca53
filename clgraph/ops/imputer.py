"""Missing values filled in: ai.onnx.ml's Imputer."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.where import Where


@primitive
@frozen
class Imputer(Composite):
    """``y`` is x with *values*, one or one a column (the last axis), where it is *missing*, which may be NaN."""

    missing: float | int
    values: tuple[float | int, ...]

    kind: ClassVar[str] = "imputer"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        layout = c.layout(x)
        if len(self.values) != 1 and layout.shape[-1:] != (len(self.values),):
            raise ShapeError(f"{len(self.values)} values fill neither all columns nor each of {layout.shape[-1:]}")
        values = c.constant(np.array(self.values).astype(layout.dtype.numpy))
        if isnan(self.missing):
            if not layout.dtype.floating:
                return (x,)
            return (c.add(Where(), c.add(Eltwise("equal"), x, x), x, values),)
        missing = c.constant(np.array(self.missing).astype(layout.dtype.numpy))
        return (c.add(Where(), c.add(Eltwise("equal"), x, missing), values, x),)


@onnx("Imputer", since=(1,), domain="ai.onnx.ml")
def import_imputer(node: OnnxNode) -> Primitive:
    floats, integers = node.attribute("imputed_value_floats", ()), node.attribute("imputed_value_int64s", ())
    if bool(floats) == bool(integers):
        raise node.unsupported("expected either imputed_value_floats or imputed_value_int64s")
    missing = node.attribute("replaced_value_float", 0.0) if floats else node.attribute("replaced_value_int64", 0)
    return Imputer(missing, floats or integers)
