"""Whether small pictures need a family of their own: where kernels for large ones transform weights, and read more."""

from __future__ import annotations

from clgraph.graph.layer import Layer
from clgraph.graph.topology import Inlinable, Topology
from clgraph.ops.convolution import Convolution

AS_LARGE = "small pictures are computed by the kernels of large ones"
"""Why a schema of small pictures has no family: the next one serves them as well."""

CHANNELS = 16
"""Fewest channels on both sides: of a picture's own three, the weights are few, transformed or not."""


def may_have_windows(topology: Topology) -> bool:
    """Whether there may be convolutions whose weights Winograd's method makes up to four times as many.

    Other kernels suit small pictures as they suit large ones, or are cut for each member: networks of 1x1 and depthwise
    convolutions (MobileNet, EfficientNet, PP-OCRv4's recognition) take the same time in either family, and a text line
    of another width must not cost a compilation.
    """
    return any(_may_transform(layer, topology) for layer in topology.layers)


def _may_transform(layer: Layer, topology: Topology) -> bool:
    if not isinstance(layer.primitive, Convolution):
        return isinstance(layer.primitive, Inlinable)
    weights = topology.constants.get(layer.inputs[1])
    if weights is None:
        return True
    return layer.primitive.groups == 1 and weights.shape[2:] == (3, 3) and min(weights.shape[:2]) >= CHANNELS
