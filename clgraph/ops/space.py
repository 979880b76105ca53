"""Channels and pixels exchanged in blocks: ONNX's DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import General, move
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View


@primitive
@frozen
class Shuffle(Primitive):
    """Moves blocks of *size* x *size* pixels of x ``[N, C, H, W]`` from channels to the plane or back.

    Attributes:
        to_depth: Pixels to channels; else channels to pixels.
        channels_first: Channel ``c * size² + block`` (CRD) instead of ``block * channels + c`` (DCR).
    """

    size: int
    to_depth: bool = False
    channels_first: bool = False

    kind: ClassVar[str] = "shuffle"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if x.rank != 4:
            raise ShapeError(f"{self} requires x[N,C,H,W], not rank {x.rank}")
        (n, c, h, w), s = x.shape, self.size
        if s < 1:
            raise ShapeError(f"blocks of {s} are none")
        fits = h % s == w % s == 0 if self.to_depth else c % (s * s) == 0
        if not fits:
            raise ShapeError(f"{list(x.shape)} does not divide into blocks of {s}")
        return (x.with_shape((n, c * s * s, h // s, w // s) if self.to_depth else (n, c // (s * s), h * s, w * s)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,), s = inputs, self.size
        (out,) = self.infer([Layout.of(x)])
        n, c, h, w = x.shape
        if self.to_depth:
            split, axes = (
                (n, c, h // s, s, w // s, s),
                (0, 1, 3, 5, 2, 4) if self.channels_first else (0, 3, 5, 1, 2, 4),
            )
        elif self.channels_first:
            split, axes = (n, c // (s * s), s, s, h, w), (0, 1, 4, 2, 5, 3)
        else:
            split, axes = (n, s, s, c // (s * s), h, w), (0, 3, 4, 1, 5, 2)
        return (np.ascontiguousarray(x.reshape(split).transpose(axes).reshape(out.shape)),)


@onnx("DepthToSpace", since=(1, 11, 13, 28))
def import_depth_to_space(node: OnnxNode) -> Primitive:
    return Shuffle(node.attribute("blocksize", 1), channels_first=node.attribute("mode", "DCR") == "CRD")


@onnx("SpaceToDepth", since=(1, 13, 28))
def import_space_to_depth(node: OnnxNode) -> Primitive:
    return Shuffle(node.attribute("blocksize", 1), True, node.attribute("mode", "DCR") == "CRD")


@implements(Shuffle, name="shuffle.ref", serves=Serves(dtypes=frozenset(DType)), general=True)
class ShuffleRef(General[Shuffle]):
    """A copy on six axes: image, channel, row, pixel, and row and pixel in the block."""

    @classmethod
    def plan(cls, q: Query[Shuffle]) -> Plan:
        x, (y,), f = q.inputs[0], q.outputs, q.primitive
        deep, wide = (y, x) if f.to_depth else (x, y)
        s, channels = f.size, wide.shape[1]
        dims = (wide.shape[0], channels, *deep.shape[2:], s, s)
        n, c, h, w = deep.all_pitches
        stacked = (n, c * s * s, h, w, c * s, c) if f.channels_first else (n, c, h, w, c * channels * s, c * channels)
        n, c, h, w = wide.all_pitches
        views = (View(deep.origin, stacked), View(wide.origin, (n, c, h * s, w * s, h, w)))
        source, target = reversed(views) if f.to_depth else views
        return Plan((move(x, ("in0", source), ("out0", target), dims),))
