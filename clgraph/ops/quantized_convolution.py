"""Convolutions of 8-bit integers whose exact sums are scaled: what quantised models compute between their roundings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.convolution import Convolution, convolution_table
from clgraph.ops.static_quantize import BYTES, StaticQuantize, saturating
from clgraph.selector.general import General, float_jit, launch, post_arguments, post_views
from clgraph.selector.implementation import Serves, implements, roofline
from clgraph.selector.plan import Argument, Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

ROUNDED = FUSABLE | {"static_quantize", "dequantize_add"}
"""Kinds of primitives that products of integers apply to their results."""
_MADE = frozenset({DType.F32, DType.F16})
SERVES = Serves(dtypes=_MADE | BYTES | {DType.I32}, mixed=True, formats=True, fuses=ROUNDED)
_BY_BYTES = 0.25
"""What is left of a general kernel's speed where each load is a byte. An estimate."""
TERMS = 1 << 16
"""Products of 8-bit integers that a sum in int holds for certain, with another as large to start with."""


@primitive
@frozen
class QuantizedConvolution(Primitive):
    """``y[o] = (start[o] + sum of x (w[o] + shift)) * scale[o] + bias[o]``; the sum is of integers, and exact.

    Inputs: x ``[N, C, *spatial]`` in I8 or U8, w ``[O, C / groups, *kernel]`` in I8, start in I32, scale and bias
    in F32, each ``[O]``; optionally the zero point of x, one number of its type, where the network computes it. With a
    start of ``-zero * sum of (w + shift)`` it is the convolution of ``x - zero``; where the zero point is an input, the
    start is ``-zero`` times what stands there.

    Attributes:
        strides, dilations, pads, groups: As of a bound :class:`Convolution`.
        zero: What windows read around x: its zero point, where it is not an input.
        dtype: Of the result, F32 or F16.
        shift: What weights of unsigned bytes less their zero point have that I8 does not hold.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pads
    groups: int = 1
    zero: int = 0
    dtype: DType = DType.F32
    shift: int = 0

    kind: ClassVar[str] = "quantized_convolution"
    holds_sizes: ClassVar[bool] = False
    exact_inputs: ClassVar[frozenset[int]] = frozenset({3, 4})

    @property
    def window(self) -> Convolution:
        """The same convolution of floats."""
        return Convolution(self.strides, self.dilations, self.pads, self.groups)

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        check_types(inputs, inputs[1].shape[0], self.dtype)
        return (replace(self.window.infer(inputs[:2])[0], dtype=self.dtype),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, bytes_, start, scale, bias, *given = inputs
        w = bytes_.astype(np.int64) + self.shift
        zero = int(given[0].reshape(())) if given else self.zero
        # Doubles hold sums of 2^37 products.
        (sums,) = self.window.reference(x.astype(np.float64) - zero, w.astype(np.float64))
        wide = (-1, *(1,) * (x.ndim - 2))
        begin = start.astype(np.int64) * (-zero if given else 1)
        around = begin + zero * w.sum(tuple(range(1, w.ndim)))
        return (scaled(sums + around.reshape(wide), scale.reshape(wide), bias.reshape(wide), self.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return self.window.flops(inputs[:2], outputs)


def check_types(inputs: Sequence[Layout], outputs: int, dtype: DType) -> None:
    """Raise ``ShapeError`` unless the inputs have the types of a product of integers, and *outputs* scales."""
    types = tuple(v.dtype for v in inputs[:5])
    if types[0] not in BYTES or types[1:] != (DType.I8, DType.I32, DType.F32, DType.F32) or dtype not in _MADE:
        found = ", ".join(map(str, types))
        raise ShapeError(f"requires i8 or u8, i8, i32, f32, f32 to make f32 or f16 of, not {found} to make {dtype} of")
    if any(v.dtype != types[0] or v.count != 1 for v in inputs[5:]):
        raise ShapeError(f"the zero point is one {types[0]}, not {inputs[5]}")
    if odd := [v for v in inputs[2:5] if v.shape != (outputs,)]:
        raise ShapeError(f"start, scale and bias want shape {[outputs]}, not {list(odd[0].shape)}")


def scaled(sums: Array, scale: Array, bias: Array, dtype: DType) -> Array:
    """Return sums as results in *dtype*, in float64 where the scale is."""
    y = sums.astype(scale.dtype) * scale + bias
    return np.asarray(y if scale.dtype == np.float64 else y.astype(dtype.numpy))


def unshifted_limits(q: Query[Any]) -> str | None:
    """Refuse weights that are shifted, and what :func:`rounded_limits` refuses."""
    return "multiplies weights of 8 bits" if q.primitive.shift else rounded_limits(q)


def rounded_limits(q: Query[Any]) -> str | None:
    """Refuse operations behind the sums that no kernel applies, and parameters that do not lie side by side."""
    if q.arity > 5:
        return "reads a zero point that is known"
    (y,), operands = q.outputs, {x.dtype for x in q.inputs[q.arity :]}
    *inner, last = [None, *(f.primitive for f in q.post)]
    if any(isinstance(p, StaticQuantize) for p in inner) or y.dtype != (
        last.dtype if isinstance(last, StaticQuantize) else q.primitive.dtype
    ):
        return "rounds once, at the end"
    if len(operands) > 1:
        return f"reads operands of one type, not of {' and '.join(sorted(map(str, operands)))}"
    if any(not x.is_dense_plain for x in q.own[2:]):
        return "requires start, scale and bias side by side"
    return None


def operand_type(q: Query[Any]) -> DType:
    """Return the type of the operands of fused operations."""
    return next((x.dtype for x in q.inputs[q.arity :]), DType.F32)


@implements(QuantizedConvolution, name="quantized_convolution.ref", serves=SERVES, general=True)
class QuantizedConvolutionRef(General[QuantizedConvolution]):
    """One work-item an output element, any number of spatial axes, axes in any order."""

    orders = True
    rounds = True

    @classmethod
    def further_limits(cls, q: Query[QuantizedConvolution]) -> str | None:
        return rounded_limits(q)

    @classmethod
    def cost(cls, q: Query[QuantizedConvolution]) -> float:
        return roofline(q, q.device.costs.general_compute * _BY_BYTES, q.device.costs.general_traffic)

    @classmethod
    def plan(cls, q: Query[QuantizedConvolution]) -> Plan:
        (y,), f = q.outputs, q.primitive
        numbers = convolution_table(q, q.own[1].shape[0] // f.groups, q.own[1].shape[1])
        operand = operand_type(q)
        jit = float_jit(operand, y.rank)
        if operand in BYTES:
            jit = jit.define(T=operand, **{"LOAD(p, i)": "((float)(p)[i])"})
        jit = jit.define(OUT=y.dtype)
        if y.dtype == DType.F16:
            jit = jit.define(**{"STORE_OUT(p, i, v)": "vstore_half_rte(v, i, p)"})
        elif y.dtype in BYTES:
            jit = jit.define(SATURATE=saturating(y.dtype))
        posts = post_arguments(q, post_views(q), y.rank)
        arguments: tuple[Argument, ...] = (f.zero, f.shift, "in0", "in1", "in2", "in3", "in4", "out0", numbers, *posts)
        return Plan((launch("quantized_convolution/quantized_convolution_ref", jit, y.count, *arguments),))
