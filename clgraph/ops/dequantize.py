"""Integers with a scale as floats: ONNX's DequantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.scales import FRACTIONS, SCALES, SINCE, WHOLE, Scaled, ScaledRef, computed, type_asked
from clgraph.selector.general import accesses
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.post import FUSABLE
from clgraph.selector.storage import computed_in, loaded


@primitive
@frozen
class Dequantize(Scaled):
    """``y = (x - zero) * scale``.

    Attributes:
        dtype: Of the result: that of the scale where nothing is said.
    """

    dtype: DType | None = None

    kind: ClassVar[str] = "dequantize"
    keeps_types: ClassVar[bool] = True
    holds_sizes: ClassVar[bool] = False

    def evaluate(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> tuple[Array, ...] | None:
        """Leave integers to fold_constants, which remembers them."""
        return None

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        self.check(inputs)
        x, scale, *zero = inputs
        scaled = scale.dtype.floating or scale.dtype == DType.F8E8M0
        if x.dtype not in WHOLE or not scaled or (zero and zero[0].dtype != x.dtype):
            types = ", ".join(str(v.dtype) for v in inputs)
            raise ShapeError(f"x and zero point are of one type that quantizes, the scale a float, not ({types})")
        made = self.dtype or scale.dtype
        if not made.floating:
            raise ShapeError(
                f"a scale of {scale.dtype} requires the attribute output_dtype: {made} is no type of results"
            )
        return (Layout(made, x.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, scale, *zero = inputs
        made = scale.dtype if self.dtype is None or scale.dtype == np.float64 else self.dtype.numpy
        exact = computed(scale.dtype)
        counted = exact if DType.of(x.dtype) in FRACTIONS else np.dtype(np.int64)
        whole = x.astype(counted) - (self.spread(x, zero[0]).astype(counted) if zero else counted.type(0))
        return (np.asarray(whole.astype(exact) * self.spread(x, scale).astype(exact), made),)


@onnx("DequantizeLinear", since=SINCE)
def import_dequantize(node: OnnxNode) -> Primitive:
    return Dequantize(node.attribute("axis", 1), node.attribute("block_size", 0), type_asked(node, "output_dtype"))


@implements(
    Dequantize, name="dequantize.ref", serves=Serves(dtypes=SCALES | WHOLE, mixed=True, fuses=FUSABLE), general=True
)
class DequantizeRef(ScaledRef):
    """Any type of 2 to 32 bits."""

    kernel = "dequantize/dequantize_ref"
    takes_posts = True

    @classmethod
    def macros(cls, x: DType, y: DType, f: Dequantize) -> dict[str, str]:
        exact = computed_in(x)
        load = loaded(x) if exact == "float" or x.bits < 8 else "((p)[i])"
        return accesses(y) | {"Q": x.cl, "EXACT": exact, "LOAD_Q(p, i)": load}
