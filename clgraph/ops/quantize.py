"""Floats as integers with a scale, and back: ONNX's QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from clgraph.core.conversion import SATURATED, converted
from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Bound, Permuted, PostOperation, Primitive, primitive
from clgraph.selector.general import (
    FLOATS,
    General,
    accesses,
    launch,
    post_arguments,
    post_views,
    table,
)
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.storage import computed_in, loaded, stored
from clgraph.selector.views import View, space

SMALL = frozenset(
    {*(DType.U8, DType.I8, DType.U16, DType.I16), *(DType.I4, DType.U4, DType.I2, DType.U2), *SATURATED, DType.F4E2M1}
)
"""What floats are quantized to."""
WHOLE = SMALL | {DType.I32}
SCALES = FLOATS | {DType.F8E8M0}
_FRACTIONS = SATURATED | {DType.F4E2M1}


@frozen
class _Scaled(Primitive):
    """What both share. Inputs: x, scale and, optionally, zero point.

    Attributes:
        axis: Scale and zero point are one number each, in any shape, or hold one an index of this axis.
        block: Where it is not 0, they have as many axes as x and one number for so many neighbours along *axis*.
    """

    axis: int = 1
    block: int = 0

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(replace(self, **self.bound_to(inputs)), tuple(range(len(inputs))))

    def bound_to(self, inputs: Sequence[Layout]) -> dict[str, Any]:
        """Return axis, counted from the front, and block; both 0 where one scale is for all."""
        if inputs[1].count == 1 and (not self.block or inputs[1].rank < inputs[0].rank):
            return {"axis": 0, "block": 0}
        return {"axis": positive_axis(self.axis, inputs[0].rank), "block": self.block}

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        turned = replace(self, axis=axes[self.axis]) if axes else self
        along = axes if self.block else None
        return Permuted(turned, (axes, *(along,) * (len(inputs) - 1)), (axes,))

    def spread(self, x: Array, parameter: Array) -> Array:
        """Return the scale or zero point in a shape that broadcasts with x."""
        if self.block:
            return parameter.repeat(self.block, self.axis).take(np.arange(x.shape[self.axis]), self.axis)
        if parameter.size == 1:
            return parameter.reshape(())
        return parameter.reshape([d if a == self.axis else 1 for a, d in enumerate(x.shape)])

    def check(self, inputs: Sequence[Layout]) -> None:
        """Raise ``ShapeError`` unless scale and zero point fit x."""
        x, scale, *zeros = inputs
        for zero in zeros:
            if zero.shape != scale.shape and (self.block or (zero.count, scale.count) != (1, 1)):
                raise ShapeError(f"scale {list(scale.shape)} and zero point {list(zero.shape)} differ")
        if self.block:
            blocks = tuple(-(-d // self.block) if a == self.axis else d for a, d in enumerate(x.shape))
            if scale.shape != blocks:
                raise ShapeError(f"a scale {list(scale.shape)} for blocks of {self.block} should be {list(blocks)}")
        elif scale.count != 1 and (scale.rank != 1 or x.rank <= self.axis or scale.shape[0] != x.shape[self.axis]):
            raise ShapeError(f"a scale {list(scale.shape)} fits neither x {list(x.shape)} nor its axis {self.axis}")


@primitive
@frozen
class Quantize(_Scaled):
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
        exact = _computed(scale.dtype)
        divided = exact if self.precision is None else self.precision.numpy
        start = self.spread(x, zero[0]).astype(exact) if zero else np.zeros((), exact)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            quotient = (x.astype(divided) / self.spread(x, scale).astype(divided)).astype(exact)
            if self.dtype in _FRACTIONS:
                return (
                    converted(np.where(start == 0, quotient, quotient + start), self.dtype, saturate=self.saturate),
                )
            v = np.rint(quotient) + start
        low, high = self.dtype.bounds
        return (np.minimum(np.fmax(v, low), high).astype(self.dtype.numpy),)


@primitive
@frozen
class Dequantize(_Scaled):
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
        return (Layout(self.dtype or scale.dtype, x.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, scale, *zero = inputs
        made = scale.dtype if self.dtype is None or scale.dtype == np.float64 else self.dtype.numpy
        exact = _computed(scale.dtype)
        counted = exact if DType.of(x.dtype) in _FRACTIONS else np.dtype(np.int64)
        whole = x.astype(counted) - (self.spread(x, zero[0]).astype(counted) if zero else counted.type(0))
        return (np.asarray(whole.astype(exact) * self.spread(x, scale).astype(exact), made),)


def _computed(scale: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that is computed in with a *scale* of a type."""
    return np.dtype(np.float64 if scale == np.float64 else np.float32)


_SINCE = (10, 13, 19, 21, 23, 24, 25, 28)


@onnx("QuantizeLinear", since=_SINCE)
def import_quantize(node: OnnxNode) -> Primitive:
    return Quantize(
        node.attribute("axis", 1),
        node.attribute("block_size", 0),
        _type(node, "output_dtype") or DType.U8,
        bool(node.attribute("saturate", 1)),
        _type(node, "precision"),
        like_scale=node.since >= 23,
    )


@onnx("DequantizeLinear", since=_SINCE)
def import_dequantize(node: OnnxNode) -> Primitive:
    return Dequantize(node.attribute("axis", 1), node.attribute("block_size", 0), _type(node, "output_dtype"))


def _type(node: OnnxNode, attribute: str) -> DType | None:
    """Return the type that the node asks for by *attribute*; 0, the default, says nothing."""
    asked: DType | None = node.attribute(attribute, DType.U8) if node.attribute(attribute, 0) else None
    return asked


def _walk(x: Layout) -> tuple[int, tuple[int, ...]]:
    """Return how a kernel gets to the elements of *x*; there are no steps where it has one."""
    return x.origin, x.all_pitches if x.count > 1 else ()


class _Ref(General[Any]):
    """One work-item an element, any rank."""

    kernel: ClassVar[str]

    @classmethod
    @abstractmethod
    def macros(cls, x: DType, y: DType, f: Any) -> dict[str, str]:
        """Return the macros of the types of x and y."""

    @classmethod
    def further_limits(cls, q: Query[Any]) -> str | None:
        scale, *zeros = q.own[1:3]
        if any(_walk(zero) != _walk(scale) for zero in zeros):
            return "requires the zero point where the scale is"
        return None

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        (x, scale), (y,), f = q.own[:2], q.outputs, q.primitive
        pitches = scale.all_pitches if f.block else _along(scale, f.axis, y.rank)
        # An axis that is counted in blocks stays one, under its own number.
        groups = [[a] for a in range(y.rank)] if f.block else None
        s = space(y.shape, [View.of(y), View.of(x), View(scale.origin, pitches), *post_views(q)], groups)
        jit = Jit().define(RANK=len(s.dims), **accesses(scale.dtype, "S"), **cls.macros(x.dtype, y.dtype, f))
        zero = "in2" if q.arity > 2 else "null"
        tables = table(s.dims, *s.views[:3], [f.axis, max(f.block, 1)])
        post = () if isinstance(f, Quantize) else post_arguments(q, s.views[3:], len(s.dims))
        return Plan((launch(cls.kernel, jit, y.count, "in0", "in1", zero, "out0", tables, *post),))


def _along(scale: Layout, axis: int, rank: int) -> tuple[int, ...]:
    """Return the pitches of a scale over all axes: 0, but along *axis* where it has more than one number."""
    pitch = scale.all_pitches[0] if scale.count != 1 else 0
    return tuple(pitch if a == axis else 0 for a in range(rank))


@implements(Quantize, name="quantize.ref", serves=Serves(dtypes=SCALES | WHOLE, mixed=True), general=True)
class QuantizeRef(_Ref):
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
        if y in _FRACTIONS:
            found["ROUNDED(r, zero)"] = "(zero == 0.0f ? r : r + zero)"
        else:
            found["LOW"], found["HIGH"] = (f"{float(limit)}f" for limit in y.bounds)
        if (rounded := _DIVIDED[f.precision]) is not None:
            found["DIVIDED(x, s)"] = f"{rounded}({rounded}(x) / {rounded}(s))"
        return found


_DIVIDED = {None: None, DType.F32: None, DType.F16: "half_rounded", DType.BF16: "bfloat16_rounded"}
"""The function of the kernel that rounds to a type, by the type that the quotient is computed in."""


@implements(
    Dequantize, name="dequantize.ref", serves=Serves(dtypes=SCALES | WHOLE, mixed=True, fuses=FUSABLE), general=True
)
class DequantizeRef(_Ref):
    """Any type of 2 to 32 bits."""

    kernel = "quantize/dequantize_ref"

    @classmethod
    def macros(cls, x: DType, y: DType, f: Dequantize) -> dict[str, str]:
        exact = computed_in(x)
        load = loaded(x) if exact == "float" or x.bits < 8 else "((p)[i])"
        return accesses(y) | {"Q": x.cl, "EXACT": exact, "LOAD_Q(p, i)": load}
