"""Operators with channels last that ONNX Runtime makes of ONNX's for providers that want them so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clgraph.graph.importing import NHWC, OnnxNode, onnx
from clgraph.graph.primitive import Primitive
from clgraph.ops.conv_transpose import import_conv_transpose
from clgraph.ops.convolution import import_conv
from clgraph.ops.microsoft.channels import channels_last
from clgraph.ops.pooling import import_pooling
from clgraph.ops.qlinear import import_qlinear_conv
from clgraph.ops.reduce import Reduce

_IMPORTERS: dict[str, Callable[[OnnxNode], Primitive]] = {
    "AveragePool": lambda node: import_pooling(node, "average"),
    "Conv": import_conv,
    "ConvTranspose": import_conv_transpose,
    "GlobalAveragePool": lambda node: Reduce("mean", spatial=True),
    "GlobalMaxPool": lambda node: Reduce("max", spatial=True),
    "MaxPool": lambda node: import_pooling(node, "max"),
    "QLinearConv": import_qlinear_conv,
}


@onnx("AveragePool", since=(1,), domain=NHWC)
@onnx("Conv", since=(1,), domain=NHWC)
@onnx("ConvTranspose", since=(1,), domain=NHWC)
@onnx("GlobalAveragePool", since=(1,), domain=NHWC)
@onnx("GlobalMaxPool", since=(1,), domain=NHWC)
@onnx("MaxPool", since=(1,), domain=NHWC)
@onnx("QLinearConv", since=(1,), domain=NHWC)
def import_nhwc(node: OnnxNode) -> Sequence[str]:
    """Return ONNX's operator between transposes of x and of the result; weights stay as ONNX has them."""
    return channels_last(node, _IMPORTERS[node.op_type](node), *filter(None, node.inputs))
