"""Rounding to 8 bits by a known scale, and a sum with what it made: what products of integers apply to results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.broadcasting import broadcasts_to
from clgraph.graph.primitive import Array, PostOperation, Primitive, primitive
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.selector.general import (
    FLOATS,
    General,
    bits,
    float_jit,
    launch,
    post_arguments,
    post_views,
    table,
)
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import View, space

BYTES = frozenset({DType.I8, DType.U8})


@primitive
@frozen
class StaticQuantize(Primitive):
    """``y = saturate(round(x / scale) + zero)``, halves to even, for one known scale; NaN becomes the smallest integer.

    Attributes:
        dtype: Of the result, I8 or U8.
    """

    scale: float
    zero: int
    dtype: DType = DType.I8

    kind: ClassVar[str] = "static_quantize"
    holds_sizes: ClassVar[bool] = False
    elementwise: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        if self.dtype not in BYTES or not inputs[0].dtype.floating:
            raise ShapeError(f"floats become i8 or u8, not {inputs[0].dtype} {self.dtype}")
        return (Layout(self.dtype, inputs[0].shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        exact = np.result_type(inputs[0].dtype, np.float32)
        limits = np.iinfo(self.dtype.numpy)
        with np.errstate(invalid="ignore", over="ignore"):
            v = np.rint(inputs[0].astype(exact) / exact.type(self.scale)) + self.zero
        return (np.minimum(np.fmax(v, limits.min), limits.max).astype(self.dtype.numpy),)

    def as_post(self, slot: int) -> PostOperation | None:
        return PostOperation("quantize", self.scale, float(self.zero))


@primitive
@frozen
class DequantizeAdd(Primitive):
    """``y = v + (q - zero) * scale``. Inputs: floats v, and 8-bit integers q that broadcast to them.

    Attributes:
        order: The sum that it is, where that is one of known steps; v and the floats of q are what it adds.
        swapped: v is its second operand.
    """

    scale: float
    zero: int
    order: QuantizedSum | None = None
    swapped: bool = False

    kind: ClassVar[str] = "dequantize_add"
    holds_sizes: ClassVar[bool] = False
    elementwise: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        v, q = inputs
        if not v.dtype.floating or q.dtype not in BYTES or not broadcasts_to(q.shape, v.shape):
            raise ShapeError(f"requires floats and 8-bit integers that broadcast to them, not {v} and {q}")
        return (v.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        v, q = inputs
        exact = np.result_type(v.dtype, np.float32)
        floats = (q.astype(exact) - exact.type(self.zero)) * exact.type(self.scale)
        if self.order is not None:
            return self.order.reference(*((floats, v) if self.swapped else (v, floats)))
        return (np.asarray(v.astype(exact) + floats).astype(v.dtype),)

    def as_post(self, slot: int) -> PostOperation | None:
        return None if slot else PostOperation("add_scaled", self.scale, float(self.zero))


_SERVES = Serves(dtypes=FLOATS | BYTES, mixed=True, formats=True)


@implements(StaticQuantize, name="static_quantize.ref", serves=_SERVES, general=True)
class StaticQuantizeRef(General[StaticQuantize]):
    """One work-item an element, axes in any order."""

    orders = True

    @classmethod
    def plan(cls, q: Query[StaticQuantize]) -> Plan:
        (x,), (y,), f = q.inputs, q.outputs, q.primitive
        s = _counted(y, [View.of(y), View.of(x)])
        jit = float_jit(x.dtype, len(s.dims)).define(OUT=y.dtype, SATURATE=saturating(y.dtype))
        numbers = table(s.dims, *s.views, [bits(f.scale), bits(float(f.zero))])
        return Plan((launch("static_quantize/static_quantize_ref", jit, y.count, "in0", "out0", numbers),))


@implements(DequantizeAdd, name="dequantize_add.ref", serves=replace(_SERVES, fuses=FUSABLE), general=True)
class DequantizeAddRef(General[DequantizeAdd]):
    """One work-item an element, axes in any order."""

    orders = True

    @classmethod
    def further_limits(cls, q: Query[DequantizeAdd]) -> str | None:
        odd = [x for x in q.inputs[2:] if x.dtype != q.outputs[0].dtype]
        return f"reads no operands of {odd[0].dtype}" if odd else None

    @classmethod
    def plan(cls, q: Query[DequantizeAdd]) -> Plan:
        (y,), (v, r), f = q.outputs, q.own, q.primitive
        s = _counted(y, [View.of(y), View.of(v), View.of(r, y.shape), *post_views(q)])
        jit = float_jit(y.dtype, len(s.dims)).define(Q=r.dtype)
        numbers = table(s.dims, *s.views[:3], [bits(f.scale), bits(float(f.zero))])
        posts = post_arguments(q, s.views[3:], len(s.dims))
        return Plan((launch("dequantize_add/dequantize_add_ref", jit, y.count, "in0", "in1", "out0", numbers, *posts),))


def saturating(dtype: DType) -> str:
    """Return how a kernel turns a whole float into *dtype*."""
    return f"convert_{dtype.cl}_sat"


def _counted(y: Layout, views: Sequence[View]) -> Any:
    """Return the space of *y* with its axes in the order of memory."""
    return space(y.shape, views, [sorted(range(y.rank), key=lambda axis: -y.all_pitches[axis])])
