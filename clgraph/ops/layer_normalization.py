"""Normalisation by the mean and variance of the tensor itself: of its last axes, or of each image and channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.broadcasting import broadcast
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.cast_like import CastLike
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reduce import mean_of
from clgraph.ops.reorder import Reorder
from clgraph.selector.general import (
    REALS,
    General,
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


@primitive
@frozen
class LayerNormalization(Primitive):
    """``y = (x - mean) / sqrt(variance + epsilon) * scale + bias``, mean and variance over *axis* and those behind it.

    Inputs: x, scale and optional bias; these two broadcast to x or, with *channels*, are ``[C]`` for x ``[N, C, ...]``.

    Attributes:
        channels: Whether scale and bias have one entry a channel: ONNX's InstanceNormalization.
        centred: Whether the mean is taken off; else it counts as 0 (Zhang and Sennrich 2019: ONNX's RMSNormalization).
    """

    axis: int = -1
    epsilon: float = 1e-5
    channels: bool = False
    centred: bool = True

    kind: ClassVar[str] = "layer_normalization"
    holds_sizes: ClassVar[bool] = False

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(replace(self, axis=positive_axis(self.axis, inputs[0].rank)), tuple(range(len(inputs))))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x = inputs[0]
        positive_axis(self.axis, x.rank)
        for other in inputs[1:]:
            shape = self.wide(other.shape, x.rank)
            if len(shape) > x.rank or broadcast(shape, x.shape) != x.shape:
                raise ShapeError(f"scale or bias {list(other.shape)} does not broadcast to {list(x.shape)}")
        return (x.plain(),)

    def wide(self, shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
        """Return the shape of scale or bias as it broadcasts with x of *rank* axes."""
        return (*shape, *(1 for _ in range(rank - 2))) if self.channels else shape

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0]
        exact = x.astype(np.result_type(x.dtype, np.float32))
        axes = tuple(range(positive_axis(self.axis, x.ndim), x.ndim))
        count = max(prod(x.shape[a] for a in axes), 1)  # NumPy's mean warns of no elements
        centred = exact - exact.sum(axes, keepdims=True) / count if self.centred else exact
        variance = np.square(centred).sum(axes, keepdims=True) / count
        y = centred / np.sqrt(variance + np.asarray(self.epsilon, exact.dtype))
        y = y * inputs[1].reshape(self.wide(inputs[1].shape, x.ndim))
        if len(inputs) > 2:
            y = y + inputs[2].reshape(self.wide(inputs[2].shape, x.ndim))
        return (y.astype(x.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 8.0 * prod(inputs[0].shape)


@primitive
@frozen
class Moments(Composite):
    """The mean of x over *axis* and those behind it, and ``1 / sqrt(variance + epsilon)``, as float32."""

    axis: int = -1
    epsilon: float = 1e-5

    kind: ClassVar[str] = "moments"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        rank = c.layout(x).rank
        axes = tuple(range(positive_axis(self.axis, rank), rank))
        x = c.add(Reorder(DType.F32), x) if c.layout(x).dtype in (DType.F16, DType.BF16) else x
        mean = mean_of(c, x, axes)
        square = c.add(Activation("square"), c.add(Eltwise("sub"), x, mean))
        variance = c.add(Activation("linear", 1.0, self.epsilon), mean_of(c, square, axes))
        found = mean, c.add(Activation("reciprocal"), c.add(Activation("sqrt"), variance))
        return [c.add(Reorder(DType.F32), y) for y in found] if c.layout(x).dtype == DType.F64 else found


EPSILON = float(np.float32(1e-5))
"""The default of ONNX's attribute, which is a float32."""


@onnx("LayerNormalization", since=(1,), domain=MICROSOFT)
@onnx("LayerNormalization", since=(17,))
def import_layer_normalization(node: OnnxNode) -> Sequence[str]:
    """Return a normalisation; of ONNX Runtime's, x may be of another type than scale and result."""
    axis, epsilon = node.attribute("axis", -1), node.attribute("epsilon", EPSILON)
    x, *parameters = node.inputs
    if node.type_of(0) != node.type_of(1):
        (x,) = node.emit(CastLike(), x, parameters[0])
    y = node.emit(LayerNormalization(axis, epsilon), x, *parameters)
    return y if node.output_count == 1 else (*y, *node.emit(Moments(axis, epsilon), x, outputs=2))


@onnx("RMSNormalization", since=(23,))
def import_rms_normalization(node: OnnxNode) -> Sequence[str]:
    """Return a normalisation, in the type of the scale."""
    x, scale = node.inputs
    if node.type_of(0) != node.type_of(1):
        (x,) = node.emit(CastLike(), x, scale)
    return node.emit(
        LayerNormalization(node.attribute("axis", -1), node.attribute("epsilon", EPSILON), centred=False), x, scale
    )


@onnx("InstanceNormalization", since=(1, 6, 22))
def import_instance_normalization(node: OnnxNode) -> Primitive:
    return LayerNormalization(2, node.attribute("epsilon", EPSILON), channels=True)


@implements(
    LayerNormalization, name="layer_normalization.ref", serves=Serves(dtypes=REALS, fuses=FUSABLE), general=True
)
class LayerNormalizationRef(General[LayerNormalization]):
    """One work-item a row, any rank."""

    @classmethod
    def plan(cls, q: Query[LayerNormalization]) -> Plan:
        (y,), f = q.outputs, q.primitive
        axis = positive_axis(f.axis, y.rank)

        bias = q.own[2] if q.arity > 2 else None
        views = [View.of(y), View.of(q.inputs[0]), over_result(q, q.own[1]), over_result(q, bias), *post_views(q)]
        s = space(y.shape, views, [range(axis), range(axis, y.rank)])
        rows, count = s.counts
        numbers = table(s.dims, *s.views[:4], [s.groups[0], count, int(q.arity > 2), int(f.centred)])
        arguments = ("in0", "in1", q.role(2), "out0", numbers, f.epsilon)
        posts = post_arguments(q, s.views[4:], len(s.dims))
        jit = float_jit(y.dtype, len(s.dims))
        return Plan((launch("layer_normalization/layer_normalization_ref", jit, rows, *arguments, *posts),))


def over_result(q: Query[LayerNormalization], layout: Layout | None) -> View:
    """Return the view of a scale or bias on the axes of the result; of ``None`` one that is never read."""
    (y,) = q.outputs
    if layout is None:
        return View(0, (0,) * y.rank)
    if not q.primitive.channels:
        return View.of(layout, y.shape)
    return View(layout.origin, tuple(layout.all_pitches[0] if a == 1 else 0 for a in range(y.rank)))
