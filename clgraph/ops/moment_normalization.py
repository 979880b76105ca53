"""Normalisation by moments: ONNX's GroupNormalization and MeanVarianceNormalization."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.layer_normalization import EPSILON, LayerNormalization
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape


def in_float32(c: Composition, x: str) -> str:
    """Return *x*, a half as a float."""
    return c.add(Reorder(DType.F32), x) if c.layout(x).dtype in (DType.F16, DType.BF16) else x


def in_type_of(c: Composition, y: str, like: str) -> str:
    """Return *y* as the element type of *like*."""
    dtype = c.layout(like).dtype
    return y if c.layout(y).dtype == dtype else c.add(Reorder(dtype), y)


@primitive
@frozen
class GroupNormalization(Composite):
    """Each of *groups* of channels of x ``[N, C, ...]`` less its mean by its deviation, by scale and bias.

    Inputs: x, scale and bias ``[C]``, or ``[groups]`` where *by_group*.
    """

    groups: int
    epsilon: float = 1e-5
    by_group: bool = False

    kind: ClassVar[str] = "group_normalization"

    def compose(self, c: Composition) -> Sequence[str]:
        x, scale, bias = c.inputs
        shape = c.layout(x).shape
        if len(shape) < 2 or self.groups < 1 or shape[1] % self.groups:
            raise ShapeError(f"{list(shape)} has no {self.groups} groups of channels")
        each = shape[1] // self.groups
        wide = (shape[0], self.groups, each, prod(shape[2:]))
        of_each = (self.groups, 1 if self.by_group else each, 1)
        parts = [c.add(Reshape(wide, zero_is_zero=True), in_float32(c, x))]
        parts += [c.add(Reshape(of_each), in_float32(c, v)) for v in (scale, bias)]
        y = in_type_of(c, c.add(LayerNormalization(2, self.epsilon), *parts), x)
        return (c.add(Reshape(shape, zero_is_zero=True), y),)


@primitive
@frozen
class MeanVarianceNormalization(Composite):
    """``y = (x - mean) / (deviation + 1e-9)`` over *axes*, ``x - mean`` where it is not *scaled*."""

    axes: tuple[int, ...] = (0, 2, 3)
    scaled: bool = True

    kind: ClassVar[str] = "mean_variance_normalization"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        centred = c.add(Eltwise("sub"), x, c.add(Reduce("mean", self.axes), x))
        if not self.scaled:
            return (centred,)
        variance = c.add(Reduce("mean", self.axes), c.add(Activation("square"), centred))
        deviation = c.add(Activation("linear", 1.0, 1e-9), c.add(Activation("sqrt"), variance))
        return (c.add(Eltwise("div"), centred, deviation),)


@onnx("GroupNormalization", since=(18, 21))
def import_group_normalization(node: OnnxNode) -> Primitive:
    return GroupNormalization(node.attribute("num_groups", 1), node.attribute("epsilon", EPSILON), node.since == 18)


@onnx("MeanVarianceNormalization", since=(1, 9, 13))
def import_mean_variance_normalization(node: OnnxNode) -> Primitive:
    if node.since == 1:
        axes = (0, 1, 2, 3) if node.attribute("across_channels", 0) else (0, 2, 3)
        return MeanVarianceNormalization(axes, bool(node.attribute("normalize_variance", 1)))
    return MeanVarianceNormalization(tuple(node.attribute("axes", (0, 2, 3))))
