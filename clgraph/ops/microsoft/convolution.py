"""Convolutions with a sum and an activation, and those of images whose channels come last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known_ints, pairs
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.conv_transpose import ConvTranspose, import_conv_transpose
from clgraph.ops.convolution import import_conv
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.microsoft.activation import emit_activation
from clgraph.ops.microsoft.channels import channels_last
from clgraph.ops.pooling import import_pooling


@onnx("NhwcConv", since=(1,), domain=MICROSOFT)
@onnx("NhwcFusedConv", since=(1,), domain=MICROSOFT)
@onnx("FusedConv", since=(1,), domain=MICROSOFT)
def import_fused_conv(node: OnnxNode) -> Sequence[str]:
    """Return ``activation(conv(x, w) + bias + z)``; w has its channels first whatever x has."""
    x, w, bias, z = (*node.inputs, "", "")[:4]
    window, parameters = import_conv(node), (w, bias) if bias else (w,)
    y = (
        node.emit(window, x, *parameters)
        if node.op_type == "FusedConv"
        else channels_last(node, window, x, *parameters)
    )
    if z:
        y = node.emit(Eltwise("add"), *y, z)
    return emit_activation(node, node.attribute("activation", ""), node.attribute("activation_params", ()), *y)


@onnx("NhwcMaxPool", since=(1,), domain=MICROSOFT)
def import_nhwc_max_pool(node: OnnxNode) -> Sequence[str]:
    return channels_last(node, import_pooling(node, "max"), node.inputs[0])


@primitive
@frozen
class ConvTransposeWithPads(Composite):
    """A transposed convolution of x and w, with pads (all before, then all after) and bias as *given* says."""

    window: ConvTranspose
    given: tuple[str, ...] = ()

    kind: ClassVar[str] = "conv_transpose_with_pads"

    def value_slots(self) -> tuple[int, ...]:
        return (2,) if "pads" in self.given else ()

    def compose(self, c: Composition) -> Sequence[str]:
        x, w, *more = c.inputs
        window = self.window
        if "pads" in self.given:
            pads = known_ints(c.values, 2, "pads")
            if len(pads) != 2 * (c.layout(x).rank - 2):
                raise ShapeError(f"pads {list(pads)} are not two for each of {c.layout(x).rank - 2} spatial axes")
            window, more = replace(window, pads=pairs(pads)), more[1:]
        return (c.add(window, x, w, *more),)


@onnx("ConvTransposeWithDynamicPads", since=(1,), domain=MICROSOFT)
def import_conv_transpose_with_pads(node: OnnxNode) -> Sequence[str] | Primitive:
    window = import_conv_transpose(node)
    assert isinstance(window, ConvTranspose)
    given = tuple(n for n, name in zip(("pads", "bias"), node.inputs[2:], strict=False) if name)
    return ConvTransposeWithPads(window, given)
