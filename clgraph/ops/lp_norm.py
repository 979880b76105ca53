"""Norms of order p: of windows and whole planes (LpPool, GlobalLpPool), and divided by (LpNormalization)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.attributes import Pads, check_pads, pairs, positive_axis, window_pads, window_sizes
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.pad import Pad
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.ops.where import Where


@primitive
@frozen
class LpNormalization(Composite):
    """x divided by its norm of order *p*, 1 or 2, along *axis*; by a norm of 0, which tiny numbers may have, zeros."""

    axis: int = -1
    p: int = 2

    kind: ClassVar[str] = "lp_normalization"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        axis = positive_axis(self.axis, c.layout(x).rank)
        zero, endless = (c.constant(np.array(v, c.layout(x).dtype.numpy)) for v in (0, np.inf))
        norm = c.add(Reduce("l1" if self.p == 1 else "l2", (axis,)), x)
        return (c.add(Eltwise("div"), x, c.add(Where(), c.add(Eltwise("equal"), norm, zero), endless, norm)),)


@primitive
@frozen
class LpPool(Composite):
    """The norm of order *p* of each window of x ``[N, C, *spatial]``; of whole planes without a *kernel*.

    Attributes:
        kernel, strides, dilations, pads, ceil_mode, auto_pad: As :class:`~clgraph.ops.pooling.Pooling` has them.
    """

    p: float = 2
    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: Pads = ()
    ceil_mode: bool = False
    auto_pad: str = ""

    kind: ClassVar[str] = "lp_pool"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        layout = c.layout(x)
        power = c.add(Activation("square"), x) if self.p == 2 else self._power(c, c.add(Activation("abs"), x), self.p)
        if not self.kernel:
            total = c.add(Reduce("sum", tuple(range(2, layout.rank))), power)
        else:
            ones, spatial = (1,) * len(self.kernel), layout.shape[2:]
            strides, dilations = self.strides or ones, self.dilations or ones
            pads = window_pads(self.auto_pad, self.pads, spatial, self.kernel, strides, dilations)
            check_pads(pads, self.kernel, dilations)
            window_sizes(spatial, self.kernel, strides, dilations, pads, partial=True)
            # A window that is larger than the map, by less than a stride, sums zeros behind it, as in ONNX Runtime.
            windows = zip(spatial, pads, self.kernel, dilations, strict=True)
            rooms = [s + b + a - (k - 1) * d - 1 for s, (b, a), k, d in windows]
            pads = tuple((b, a - r if -t < r < 0 else a) for (b, a), r, t in zip(pads, rooms, strides, strict=True))
            if self.ceil_mode:
                # Windows that reach beyond the pads sum zeros there, so that every one has the same divisor.
                pads = tuple(
                    (b, a + -(s + b + a - (k - 1) * d - 1) % t)
                    for s, (b, a), k, d, t in zip(spatial, pads, self.kernel, dilations, strides, strict=True)
                )
            padded = c.add(Pad(((0, 0), (0, 0), *pads)), power)
            mean = c.add(Pooling("average", self.kernel, strides, dilations), padded)
            total = c.add(Activation("linear", float(prod(self.kernel))), mean)
        return (c.add(Activation("sqrt"), total) if self.p == 2 else self._power(c, total, 1 / self.p),)

    def _power(self, c: Composition, x: str, exponent: float) -> str:
        return x if exponent == 1 else c.add(Eltwise("pow"), x, c.constant(np.array(exponent, c.layout(x).dtype.numpy)))


@onnx("LpNormalization", since=(1, 22))
def import_lp_normalization(node: OnnxNode) -> Primitive:
    return LpNormalization(node.attribute("axis", -1), node.attribute("p", 2))


@onnx("LpPool", since=(1, 2, 11, 18, 22))
def import_lp_pool(node: OnnxNode) -> Primitive:
    return LpPool(
        node.attribute("p", 2),
        tuple(node.attribute("kernel_shape", ())),
        tuple(node.attribute("strides", ())),
        tuple(node.attribute("dilations", ())),
        pairs(node.attribute("pads", ())),
        bool(node.attribute("ceil_mode", 0)),
        node.attribute("auto_pad", ""),
    )


@onnx("GlobalLpPool", since=(1, 2, 22))
def import_global_lp_pool(node: OnnxNode) -> Primitive:
    return LpPool(node.attribute("p", 2))
