"""Floats as integers with a scale: ONNX's QuantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.conversion import converted
from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, PostOperation, Primitive, primitive
from clgraph.ops.scales import FRACTIONS, SCALES, SINCE, SMALL, WHOLE, Scaled, ScaledRef, computed, type_asked
from clgraph.selector.general import accesses
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.query import Query
from clgraph.selector.storage import loaded, stored


@primitive
@frozen
class Quantize(Scaled):
    """``y = saturate(round(x / scale) + zero)``, halves to even; NaN becomes the smallest integer.

    Floats of 8 and 4 bits are rounded as :func:`converted` does, and keep NaN where they have it.

    Attributes:
        dtype: Of the result: that of the zero point where there is one.
        saturate: Of floats of 8 bits: whether what is beyond the largest number becomes that.
        precision: What the quotient is computed in; float32, or float64 for a scale of it, where nothing is said.
        like_scale: Before ``bind``: where nothing is said, whether the quotient is of the scale's type if that is of
            16 bits.
    """

    dtype: DType = DType.U8
    saturate: bool = True
    precision: DType | None = None
    like_scale: bool = False

    kind: ClassVar[str] = "quantize"
    keeps_types: ClassVar[bool] = True
    holds_sizes: ClassVar[bool] = False

    def as_post(self, slot: int) -> PostOperation | None:
        """Return the operation of products of bytes, which read scale and zero point."""
        return PostOperation("quantize") if slot == 0 and self.dtype == DType.U8 and not self.axis else None

    @property
    def narrow(self) -> bool:
        """Whether the quotient is rounded to fewer bits than float32 has, before it is rounded to an integer."""
        return self.precision in (DType.F16, DType.BF16)

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        dtype = inputs[2].dtype if len(inputs) > 2 else self.dtype
        like = self.like_scale and self.precision is None and inputs[1].dtype in (DType.F16, DType.BF16)
        bound = replace(
            self,
            **self.bound_to(inputs),
            dtype=dtype,
            precision=inputs[1].dtype if like else self.precision,
            like_scale=False,
        )
        return Bound(bound, tuple(range(len(inputs))))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        self.check(inputs)
        x, scale, *zero = inputs
        fits = (x.dtype.floating or x.dtype == DType.I32) and all(z.dtype == self.dtype for z in zero)
        scaled = scale.dtype.floating or scale.dtype in (DType.F8E8M0, DType.I32)
        if self.dtype not in SMALL or not fits or not scaled:
            types = ", ".join(str(v.dtype) for v in inputs)
            made = ", ".join(sorted(map(str, SMALL)))
            raise ShapeError(f"floats and i32 become one of {made} by a float, not ({types}) {self.dtype}")
        return (Layout(self.dtype, inputs[0].shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, scale, *zero = inputs
        exact = computed(scale.dtype)
        divided = exact if self.precision is None else self.precision.numpy
        start = self.spread(x, zero[0]).astype(exact) if zero else np.zeros((), exact)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            quotient = (x.astype(divided) / self.spread(x, scale).astype(divided)).astype(exact)
            if self.dtype in FRACTIONS:
                return (
                    converted(np.where(start == 0, quotient, quotient + start), self.dtype, saturate=self.saturate),
                )
            v = np.rint(quotient) + start
        low, high = self.dtype.bounds
        return (np.minimum(np.fmax(v, low), high).astype(self.dtype.numpy),)


@onnx("QuantizeLinear", since=SINCE)
def import_quantize(node: OnnxNode) -> Primitive:
    return Quantize(
        node.attribute("axis", 1),
        node.attribute("block_size", 0),
        type_asked(node, "output_dtype") or DType.U8,
        bool(node.attribute("saturate", 1)),
        type_asked(node, "precision"),
        like_scale=node.since >= 23,
    )


@implements(Quantize, name="quantize.ref", serves=Serves(dtypes=SCALES | WHOLE, mixed=True), general=True)
class QuantizeRef(ScaledRef):
    """Any type of 2 to 16 bits."""

    kernel = "quantize/quantize_ref"

    @classmethod
    def further_limits(cls, q: Query[Quantize]) -> str | None:
        if (wanted := q.primitive.precision) not in _DIVIDED:
            return f"divides in float, half and bfloat16, not in {wanted}"
        return super().further_limits(q)

    @classmethod
    def macros(cls, x: DType, y: DType, f: Quantize) -> dict[str, str]:
        found = accesses(x) | {"Q": y.cl, "LOAD_Q(p, i)": loaded(y), "STORE_Q(p, i, v)": stored(y, saturate=f.saturate)}
        if y in FRACTIONS:
            found["ROUNDED(r, zero)"] = "(zero == 0.0f ? r : r + zero)"
        else:
            found["LOW"], found["HIGH"] = (f"{float(limit)}f" for limit in y.bounds)
        if (rounded := _DIVIDED[f.precision]) is not None:
            found["DIVIDED(x, s)"] = f"{rounded}({rounded}(x) / {rounded}(s))"
        return found


_DIVIDED = {None: None, DType.F32: None, DType.F16: "half_rounded", DType.BF16: "bfloat16_rounded"}
"""The function of the kernel that rounds to a type, by the type that the quotient is computed in."""
