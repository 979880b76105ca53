"""Convolution over any number of spatial axes, with groups and an optional bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads, check_kernel_shape, pairs, window_pads, window_sizes
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
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
from clgraph.selector.plan import Argument, Launch, Plan, Table
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import View

APART = "weights of -0 that are not there"
"""What a convolution whose groups became one demands."""


@primitive
@frozen
class Convolution(Primitive):
    """``y[n, o] = bias[o] + sum over c, k of w[o, c, k] * x[n, c, y * stride + k * dilation - pad]``.

    Inputs: x ``[N, C, *spatial]``, w ``[O, C / groups, *kernel]``, optional bias ``[O]``.

    Attributes:
        strides, dilations: One entry a spatial axis; empty before ``bind``: all ones.
        pads: Zeros (before, after) a spatial axis; empty before ``bind``: none.
        auto_pad: ONNX's rule for the pads; ``""`` once bound.
        apart: Weights of -0 are not there, those of 0 are: groups became one, and what is not finite in one of them
            does not reach the others.
        bands: What is known of the weights of one group: not there outside of so many equal blocks on their diagonal,
            which an implementation may leave out. They were groups once, too narrow to be computed apart.
        shuffled: The diagonal is that of shuffled input channels: channel ``s * n + i`` of x, in so many ranges of n,
            has place ``i * shuffled + s`` on it.
        exact: The products are added as they are, so that sums of integers are integers: no transform of them.
    """

    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: Pads = ()
    groups: int = 1
    auto_pad: str = ""
    apart: bool = False
    bands: int = 1
    shuffled: int = 1
    exact: bool = False

    kind: ClassVar[str] = "convolution"
    holds_sizes: ClassVar[bool] = False

    def takes_sizes(self) -> bool:
        return bool(self.auto_pad)

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        spatial, kernel = inputs[0].shape[2:], inputs[1].shape[2:]
        ones = (1,) * len(spatial)
        bound = replace(self, strides=self.strides or ones, dilations=self.dilations or ones, auto_pad="")
        pads = window_pads(self.auto_pad, self.pads, spatial, kernel, bound.strides, bound.dilations)
        return Bound(replace(bound, pads=pads), tuple(range(len(inputs))))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, w = inputs[0].shape, inputs[1].shape
        if len(x) < 3 or len(x) != len(w):
            raise ShapeError(f"convolution requires x[N,C,...] and w[O,C/groups,...], not ranks {len(x)} and {len(w)}")
        if w[1] * self.groups != x[1] or w[0] % self.groups:
            raise ShapeError(f"weights {list(w)} in {self.groups} groups do not fit {x[1]} channels")
        if len(inputs) > 2 and inputs[2].shape != (w[0],):
            raise ShapeError(f"the bias requires shape {[w[0]]}, not {list(inputs[2].shape)}")
        sizes = window_sizes(x[2:], w[2:], self.strides, self.dilations, self.pads)
        return (inputs[0].with_shape((x[0], w[0], *sizes)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, w = inputs[:2]
        exact = np.result_type(x.dtype, np.float32)
        padded = np.pad(x.astype(exact), ((0, 0), (0, 0), *self.pads))
        n, c, g = x.shape[0], x.shape[1], self.groups
        kernel = w.shape[2:]
        sizes = window_sizes(x.shape[2:], kernel, self.strides, self.dilations, self.pads)
        weights = w.astype(exact).reshape(g, w.shape[0] // g, c // g, *kernel)
        y = np.zeros((n, g, w.shape[0] // g, prod(sizes)), exact)
        for tap in product(*map(range, kernel)):
            window = tuple(
                slice(t * d, t * d + (size - 1) * s + 1, s)
                for t, d, s, size in zip(tap, self.dilations, self.strides, sizes, strict=True)
            )
            strip = padded[(slice(None), slice(None), *window)].reshape(n, g, c // g, prod(sizes))
            at = np.moveaxis(weights, (0, 1, 2), (-3, -2, -1))[tap]
            if self.apart and not np.isfinite(strip).all():
                y += _present_products(at, strip)
            else:
                y += at * strip if c == g and w.shape[0] == g else at @ strip
        y = y.reshape(n, w.shape[0], *sizes)
        if len(inputs) > 2:
            y += inputs[2].astype(exact).reshape(-1, *(1 for _ in sizes))
        return (y.astype(x.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 2.0 * outputs[0].count * prod(inputs[1].shape[1:])

    def reference_seconds(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 6e-5

    def demands(self) -> frozenset[str]:
        return frozenset({APART}) if self.apart else frozenset()


def _present_products(weights: Array, strip: Array) -> Array:
    """Return ``weights[g, o, c] @ strip[n, g, c, pixels]`` without the weights that are -0."""
    y = np.zeros((*strip.shape[:2], weights.shape[1], strip.shape[3]), strip.dtype)
    for channel in range(weights.shape[2]):
        by = weights[:, :, channel, None]
        y += np.where((by == 0) & np.signbit(by), 0, by * strip[:, :, None, channel])
    return y


@onnx("Conv", since=(1, 11, 22))
def import_conv(node: OnnxNode, weights: int = 1) -> Convolution:
    """Return the convolution of a node whose weights are the input *weights*."""
    check_kernel_shape(node.attribute("kernel_shape", None), node.constant(weights))
    return Convolution(
        strides=tuple(node.attribute("strides", ())),
        dilations=tuple(node.attribute("dilations", ())),
        pads=pairs(node.attribute("pads", ())),
        groups=node.attribute("group", 1),
        auto_pad=node.attribute("auto_pad", ""),
    )


def bias_numbers(layout: Layout | None) -> tuple[int, int]:
    """Return element offset and pitch of a bias ``[O]``; -1 and 0 for none."""
    return (-1, 0) if layout is None else (layout.origin, layout.all_pitches[0])


_SERVES = Serves(dtypes=REALS, fuses=FUSABLE, meets=frozenset({APART}))


@implements(Convolution, name="convolution.ref", serves=_SERVES, general=True)
class ConvolutionRef(General[Convolution]):
    """One work-item an output element, any number of spatial axes."""

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        numbers = convolution_table(q, q.own[1].shape[0] // q.primitive.groups, q.own[1].shape[1])
        return Plan((convolution_launch(q, "convolution/convolution_ref", numbers),))


def convolution_table(q: Query[Any], outputs: int, channels: int) -> Table:
    """Return the table of the general convolutions.

    Args:
        outputs, channels: Of one group.
    """
    x, w, (y,), f = q.own[0], q.own[1], q.outputs, q.primitive
    bias = bias_numbers(q.own[2] if q.arity > 2 else None)
    before = [b for b, _ in f.pads]
    axes = zip(x.shape[2:], w.shape[2:], f.strides, f.dilations, before, strict=True)
    views = (View.of(y), View.of(x), View.of(w))
    return table(y.shape, *views, [channels, outputs, prod(w.shape[2:]), *bias], *axes)


def convolution_launch(q: Query[Any], kernel: str, numbers: Table) -> Launch:
    """Return the launch of a general convolution: one work-item an output element."""
    (y,) = q.outputs
    bias: Argument = q.role(2)
    posts = post_arguments(q, post_views(q), y.rank)
    jit = float_jit(y.dtype, y.rank)
    jit = jit.define(APART=1) if APART in q.primitive.demands() else jit
    return launch(kernel, jit, y.count, "in0", "in1", bias, "out0", numbers, *posts)
