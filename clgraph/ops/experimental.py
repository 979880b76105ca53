"""Operators that ONNX had as experiments before operator set 10, and ONNX Runtime still runs.

Early exporters of Core ML, Caffe2 and CNTK wrote them: ImageScaler and Crop in front of a network, Affine,
ParametricSoftplus, Scale and ScaledTanh in it. None is in onnx's package; the first versions of ThresholdedRelu and
MeanVarianceNormalization are beside the later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clgraph.errors import ModelError
from clgraph.graph.attributes import present
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive
from clgraph.ops.activation import Activation
from clgraph.ops.cast_like import CastLike
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.slice import Slice

_TO_THE_END = np.iinfo(np.int64).max


@onnx("Affine", since=(1,))
def import_affine(node: OnnxNode) -> Primitive:
    """Return ``alpha * x + beta``."""
    return Activation("linear", node.attribute("alpha", 1.0), node.attribute("beta", 0.0))


@onnx("Scale", since=(1,))
def import_scale(node: OnnxNode) -> Primitive:
    """Return ``scale * x``."""
    return Activation("linear", node.attribute("scale", 1.0))


@onnx("ScaledTanh", since=(1,))
@onnx("ParametricSoftplus", since=(1,))
def import_scaled(node: OnnxNode) -> Sequence[str]:
    """Return ``alpha * f(beta * x)``."""
    function = "tanh" if node.op_type == "ScaledTanh" else "softplus"
    x = node.emit(Activation("linear", _needed(node, "beta")), node.inputs[0])
    return node.emit(Activation("linear", _needed(node, "alpha")), *node.emit(Activation(function), *x))


@onnx("ImageScaler", since=(1,))
def import_image_scaler(node: OnnxNode) -> Sequence[str]:
    """Return ``scale * x + bias`` of images ``[N, C, H, W]``, with a bias a channel."""
    bias = np.array(_needed(node, "bias"), np.float32).reshape(-1, 1, 1)
    x = node.emit(Activation("linear", node.attribute("scale", 1.0)), node.inputs[0])
    return node.emit(Eltwise("add"), *x, *node.emit(CastLike(), node.literal(bias), *x))


@onnx("Crop", since=(1,))
def import_crop(node: OnnxNode) -> Primitive:
    """Return images ``[N, C, H, W]`` without *border*: left, top, right and bottom.

    Where *scale* says the size of what is left, the border's right and bottom mean nothing.
    """
    border, scale = tuple(_needed(node, "border")), tuple(node.attribute("scale", ()))
    if len(border) != 4 or min(border) < 0 or len(scale) not in (0, 2):
        raise ModelError(f"Crop: border is {list(border)}, four sizes; scale {list(scale)}, two")
    left, top, right, bottom = border
    ends = (-bottom or _TO_THE_END, -right or _TO_THE_END)
    if scale:
        ends = (top + scale[0], left + scale[1])
    return Slice((top, left), ends, axes=(2, 3))


@onnx("DynamicSlice", since=(1,))
def import_dynamic_slice(node: OnnxNode) -> Primitive:
    """Return what later is Slice, without steps."""
    return Slice(reads=present(("starts", "ends", "axes"), node.inputs))


def _needed(node: OnnxNode, name: str) -> Any:
    if (found := node.attribute(name, None)) is None:
        raise ModelError(f"{node.op_type} lacks attribute {name!r}")
    return found
