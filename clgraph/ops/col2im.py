"""Columns of windows added up to an image: ONNX's Col2Im."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads, ints, pairs, read_values, window_sizes
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.selector.general import REALS, General, float_jit, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View


@primitive
@frozen
class Col2Im(Primitive):
    """The sum of windows x ``[N, C * prod(block), L]`` at their places in ``[N, C, *image]``.

    Attributes:
        image, block: Sizes of the result and of a window; empty before ``bind``: the values of inputs 1 and 2.
        strides, dilations, pads: One entry an axis; empty: ones, ones, zeros.
        reads: Names of the value inputs, before ``bind``.
    """

    image: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: Pads = ()
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "col2im"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        found = read_values(self.reads, values)
        image = ints(found["image"]) if found else self.image
        block = ints(found["block"]) if found else self.block
        ones = (1,) * len(image)
        given = {"block": block, "strides": self.strides, "dilations": self.dilations, "pads": self.pads}
        if wrong := [name for name, v in given.items() if (v or name == "block") and len(v) != len(image)]:
            raise ShapeError(
                f"{wrong[0]} {list(given[wrong[0]])} requires one entry for each axis of the image {list(image)}"
            )
        rest = {"strides": self.strides or ones, "dilations": self.dilations or ones}
        return Bound(
            replace(self, image=image, block=block, pads=self.pads or ((0, 0),) * len(image), reads=(), **rest), (0,)
        )

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        counts = window_sizes(self.image, self.block, self.strides, self.dilations, self.pads)
        if x.rank != 3 or x.shape[1] % prod(self.block) or x.shape[2] != prod(counts):
            raise ShapeError(f"{list(x.shape)} is not {prod(counts)} windows of {list(self.block)}")
        return (x.with_shape((x.shape[0], x.shape[1] // prod(self.block), *self.image)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        counts = window_sizes(self.image, self.block, self.strides, self.dilations, self.pads)
        channels = x.shape[1] // prod(self.block)
        windows = x.reshape(x.shape[0], channels, *self.block, *counts)
        padded = [n + b + a for n, (b, a) in zip(self.image, self.pads, strict=True)]
        y = np.zeros((x.shape[0], channels, *padded), x.dtype)
        every = (slice(None), slice(None))
        for tap in product(*map(range, self.block)):
            rows = zip(tap, self.dilations, self.strides, counts, strict=True)
            places = tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in rows)
            y[every + places] += windows[every + tuple(tap)]
        inside = tuple(slice(b, b + n) for n, (b, _) in zip(self.image, self.pads, strict=True))
        return (np.ascontiguousarray(y[every + inside]),)


@onnx("Col2Im", since=(18,))
def import_col2im(node: OnnxNode) -> Primitive:
    return Col2Im(
        strides=tuple(node.attribute("strides", ())),
        dilations=tuple(node.attribute("dilations", ())),
        pads=pairs(node.attribute("pads", ())),
        reads=("image", "block"),
    )


@implements(Col2Im, name="col2im.ref", serves=Serves(dtypes=REALS), general=True)
class Col2ImRef(General[Col2Im]):
    """One work-item an element of the images, any number of spatial axes."""

    @classmethod
    def plan(cls, q: Query[Col2Im]) -> Plan:
        (x,), (y,), f = q.own, q.outputs, q.primitive
        counts = window_sizes(f.image, f.block, f.strides, f.dilations, f.pads)
        before = [b for b, _ in f.pads]
        windows = [n for axis in zip(f.block, f.strides, f.dilations, before, counts, strict=True) for n in axis]
        numbers = table(y.shape, View.of(y), View.of(x), [len(f.image), *windows])
        return Plan((launch("col2im/col2im_ref", float_jit(x.dtype, y.rank), y.count, "in0", "out0", numbers),))
