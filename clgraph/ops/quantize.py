"""Floats as integers with a scale, and back: ONNX's QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.permute import Axes, Permuted
from clgraph.graph.primitive import Array, Bound, OnnxNode, Primitive, onnx, primitive
from clgraph.selector.general import (
    FLOATS,
    General,
    View,
    float_jit,
    launch,
    post_arguments,
    post_views,
    space,
    table,
)
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

SMALL = frozenset({DType.U8, DType.I8, DType.U16, DType.I16})
WHOLE = SMALL | {DType.I32}


@dataclass(frozen=True, slots=True)
class _Scaled(Primitive):
    """What both share. Inputs: x, scale and, optionally, zero point: scalars, or one number an index of *axis*."""

    axis: int = 1

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(replace(self, axis=self.bound_axis(inputs)), tuple(range(len(inputs))))

    def bound_axis(self, inputs: Sequence[Layout]) -> int:
        """Return the axis, counted from the front; 0 where one scale is for all."""
        return positive_axis(self.axis, inputs[0].rank) if inputs[1].count != 1 else 0

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        turned = replace(self, axis=axes[self.axis]) if axes else self
        return Permuted(turned, (axes, *(None,) * (len(inputs) - 1)), (axes,))

    def spread(self, x: Array, parameter: Array) -> Array:
        """Return the scale or zero point in a shape that broadcasts with x."""
        if parameter.size == 1:
            return parameter.reshape(())
        return parameter.reshape([d if a == self.axis else 1 for a, d in enumerate(x.shape)])

    def check(self, inputs: Sequence[Layout]) -> None:
        """Raise ``ShapeError`` unless scale and zero point fit x."""
        x, *parameters = inputs
        if parameters[-1].shape != parameters[0].shape:
            raise ShapeError(f"scale {list(parameters[0].shape)} and zero point {list(parameters[-1].shape)} differ")
        scale = parameters[0]
        if scale.count != 1 and (scale.rank != 1 or x.rank <= self.axis or scale.shape[0] != x.shape[self.axis]):
            raise ShapeError(f"a scale {list(scale.shape)} fits neither x {list(x.shape)} nor its axis {self.axis}")


@primitive
@dataclass(frozen=True, slots=True)
class Quantize(_Scaled):
    """``y = saturate(round(x / scale) + zero)``, halves to even; NaN becomes the zero point.

    Attributes:
        dtype: Of the result: that of the zero point where there is one.
    """

    dtype: DType = DType.U8

    kind: ClassVar[str] = "quantize"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        dtype = inputs[2].dtype if len(inputs) > 2 else self.dtype
        return Bound(Quantize(self.bound_axis(inputs), dtype), tuple(range(len(inputs))))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        self.check(inputs)
        if self.dtype not in SMALL or not inputs[0].dtype.floating or inputs[1].dtype != inputs[0].dtype:
            types = ", ".join(str(x.dtype) for x in inputs)
            raise ShapeError(f"floats become integers of 8 or 16 bits here, not ({types}) {self.dtype}")
        return (Layout(self.dtype, inputs[0].shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, scale, *zero = inputs
        exact = np.result_type(x.dtype, np.float32)
        start = self.spread(x, zero[0]).astype(exact) if zero else np.zeros((), exact)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            v = np.rint(x.astype(exact) / self.spread(x, scale).astype(exact)) + start
        limits = np.iinfo(self.dtype.numpy)
        return (np.where(np.isnan(v), start, np.clip(v, limits.min, limits.max)).astype(self.dtype.numpy),)


@primitive
@dataclass(frozen=True, slots=True)
class Dequantize(_Scaled):
    """``y = (x - zero) * scale``, of the scale's type."""

    kind: ClassVar[str] = "dequantize"

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        self.check(inputs)
        x, scale, *zero = inputs
        if x.dtype not in WHOLE or not scale.dtype.floating or (zero and zero[0].dtype != x.dtype):
            types = ", ".join(str(v.dtype) for v in inputs)
            raise ShapeError(f"x and zero point are integers of one type here, the scale a float, not ({types})")
        return (Layout(scale.dtype, x.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, scale, *zero = inputs
        whole = x.astype(np.int64) - (self.spread(x, zero[0]).astype(np.int64) if zero else 0)
        exact = np.result_type(scale.dtype, np.float32)
        return ((whole.astype(exact) * self.spread(x, scale).astype(exact)).astype(scale.dtype),)


_SINCE = (10, 13, 19, 21, 23, 24, 25)


@onnx("QuantizeLinear", since=_SINCE)
def import_quantize(node: OnnxNode) -> Primitive:
    _refuse(node)
    if node.attribute("output_dtype", None) is not None:
        raise node.unsupported("the type of the result is read from the zero point only; add one")
    return Quantize(node.attribute("axis", 1))


@onnx("DequantizeLinear", since=_SINCE)
def import_dequantize(node: OnnxNode) -> Primitive:
    _refuse(node)
    return Dequantize(node.attribute("axis", 1))


def _refuse(node: OnnxNode) -> None:
    if node.attribute("block_size", 0):
        raise node.unsupported("scales of blocks are not there yet; one scale, or one an index of the axis, is")


class _Ref(General[Any]):
    """One work-item an element, any rank."""

    kernel: ClassVar[str]

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        x, scale = q.own[:2]
        (y,) = q.outputs
        along = View(scale.origin, tuple(int(scale.count != 1 and a == q.primitive.axis) for a in range(y.rank)))
        views = [View.of(y), View.of(x), along]
        s = space(y.shape, [*views, *post_views(q)])
        whole = q.outputs[0].dtype if isinstance(q.primitive, Quantize) else x.dtype
        limits = np.iinfo(whole.numpy)
        jit = float_jit(scale.dtype, len(s.dims)).define(Q=whole.cl)
        if isinstance(q.primitive, Quantize):
            jit = jit.define(LOW=f"{float(limits.min)}f", HIGH=f"{float(limits.max)}f")
        zero = "in2" if q.arity > 2 else "null"
        tables = table(s.dims, *s.views[:3])
        post = () if isinstance(q.primitive, Quantize) else post_arguments(q, s.views[3:], len(s.dims))
        return Plan((launch(cls.kernel, jit, s.counts[0], "in0", "in1", zero, "out0", tables, *post),))


@implements(Quantize, name="quantize.ref", serves=Serves(dtypes=FLOATS | SMALL, mixed=True), general=True)
class QuantizeRef(_Ref):
    """Any type of 8 or 16 bits."""

    kernel = "quantize/quantize_ref"


@implements(
    Dequantize, name="dequantize.ref", serves=Serves(dtypes=FLOATS | WHOLE, mixed=True, fuses=FUSABLE), general=True
)
class DequantizeRef(_Ref):
    """Any type of 8 to 32 bits."""

    kernel = "quantize/dequantize_ref"
