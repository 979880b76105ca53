"""Normalisations of sums: ONNX Runtime's SkipLayerNormalization, SkipGroupNorm and their simpler forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.layer_normalization import EPSILON as STANDARD_EPSILON
from clgraph.ops.layer_normalization import LayerNormalization, Moments
from clgraph.ops.microsoft.channels import channels_last
from clgraph.ops.moment_normalization import GroupNormalization, in_float32, in_type_of
from clgraph.ops.reduce import Reduce
from clgraph.ops.reshape import Reshape

EPSILON = 1e-12
"""Of the normalisations that have a skip; those of groups have 1e-5."""


@primitive
@frozen
class InverseRMS(Composite):
    """``1 / sqrt(mean(x²) + epsilon)`` over *axis* and those behind it, in float32 or wider."""

    axis: int = -1
    epsilon: float = 1e-5

    kind: ClassVar[str] = "inverse_rms"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        rank = c.layout(x).rank
        axes = tuple(range(positive_axis(self.axis, rank), rank))
        mean = c.add(Reduce("mean", axes), c.add(Activation("square"), in_float32(c, x)))
        deviation = c.add(Activation("sqrt"), c.add(Activation("linear", 1.0, self.epsilon), mean))
        return (c.add(Activation("reciprocal"), deviation),)


@primitive
@frozen
class SimplifiedLayerNormalization(Composite):
    """RMSNormalization whose x may be of another type than scale and result."""

    axis: int = -1
    epsilon: float = 1e-5

    kind: ClassVar[str] = "simplified_layer_normalization"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        x, scale = c.inputs
        return (c.add(LayerNormalization(self.axis, self.epsilon, centred=False), in_type_of(c, x, scale), scale),)


@onnx("SimplifiedLayerNormalization", since=(1,))
@onnx("SimplifiedLayerNormalization", since=(1,), domain=MICROSOFT)
def import_simplified_layer_normalization(node: OnnxNode) -> Sequence[str]:
    axis, epsilon = node.attribute("axis", -1), node.attribute("epsilon", STANDARD_EPSILON)
    y = node.emit(SimplifiedLayerNormalization(axis, epsilon), *node.inputs)
    return y if node.output_count == 1 else (*y, *node.emit(InverseRMS(axis, epsilon), node.inputs[0]))


@primitive
@frozen
class SkipSum(Composite):
    """``x + skip``, the skip ``[batch or 1, rows, width]`` or ``[rows, width]`` beside x ``[batch, rows, width]``."""

    kind: ClassVar[str] = "skip_sum"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        x, skip = (c.layout(name).shape for name in c.inputs)
        if skip[-2:] != x[-2:] or skip[:-2] not in (x[:-2], (1,) * (len(x) - 2), ()):
            raise ShapeError(f"a skip {list(skip)} cannot be added to {list(x)}")
        return (c.add(Eltwise("add"), *c.inputs),)


@onnx("SkipLayerNormalization", since=(1,), domain=MICROSOFT)
@onnx("SkipSimplifiedLayerNormalization", since=(1,), domain=MICROSOFT)
def import_skip_layer_normalization(node: OnnxNode) -> Sequence[str]:
    """Return ``norm(x + skip + bias)``, the moments, of which a simplified form has a mean of 0, and the sum."""
    simplified, epsilon = "Simplified" in node.op_type, node.attribute("epsilon", EPSILON)
    x, skip, scale, *more = (*node.inputs, "", "")
    shift, bias = ("", more[0]) if simplified else more[:2]
    (total,) = node.emit(SkipSum(), x, skip)
    if bias:
        (total,) = node.emit(Eltwise("add"), total, bias)
    (y,) = node.emit(LayerNormalization(-1, epsilon, centred=not simplified), total, scale, *filter(None, (shift,)))
    made = [y, "", "", total]
    if node.output_count > 1 and not simplified:
        made[1:3] = node.emit(Moments(-1, epsilon), total, outputs=2)
    elif node.output_count > 1:
        (made[2],) = node.emit(InverseRMS(-1, epsilon), total)
        (made[1],) = node.emit(Activation("linear", 0.0), made[2])
    return made


@primitive
@frozen
class GroupNorm(Composite):
    """GroupNormalization of x ``[N, C, *spatial]`` whose scale and bias ``[C]`` may be of another type."""

    groups: int
    epsilon: float = 1e-5

    kind: ClassVar[str] = "group_norm"

    def compose(self, c: Composition) -> Sequence[str]:
        x, *parameters = c.inputs
        scale, shift = (in_type_of(c, p, x) for p in parameters)
        return (c.add(GroupNormalization(self.groups, self.epsilon), x, scale, shift),)


@primitive
@frozen
class OverImages(Composite):
    """``[C]`` or ``[N, C]`` with axes of size 1 so that it can be added to images; four axes stay.

    Attributes:
        last: Channels are the last axis of the images, else the second.
    """

    last: bool = True

    kind: ClassVar[str] = "over_images"

    def compose(self, c: Composition) -> Sequence[str]:
        (skip,) = c.inputs
        shape = c.layout(skip).shape
        if len(shape) > 2:
            return (skip,)
        batch, channels = (1, *shape)[-2:]
        wide = (batch, 1, 1, channels) if self.last else (batch, channels, 1, 1)
        return (c.add(Reshape(wide, zero_is_zero=True), skip),)


@onnx("GroupNorm", since=(1,), domain=MICROSOFT)
@onnx("SkipGroupNorm", since=(1,), domain=MICROSOFT)
def import_group_norm(node: OnnxNode) -> Sequence[str]:
    """Return the normalisation of ``x + skip + bias``, perhaps followed by SiLU, and that sum."""
    x, scale, shift, *added = node.inputs
    last, activation = bool(node.attribute("channels_last", 1)), node.attribute("activation", 0)
    if activation not in (0, 1):
        raise node.unsupported(f"activation is 0 for none or 1 for SiLU, not {activation}")
    for skip in filter(None, added):
        (x,) = node.emit(Eltwise("add"), x, *node.emit(OverImages(last), skip))
    norm = GroupNorm(node.attribute("groups", 1), node.attribute("epsilon", STANDARD_EPSILON))
    (y,) = channels_last(node, norm, x, scale, shift) if last else node.emit(norm, x, scale, shift)
    return (*(node.emit(Activation("swish", 1.0), y) if activation else (y,)), x)
