"""Transposed convolution: the gradient of a convolution by its input, used to enlarge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads, check_kernel_shape, pairs, window_pads
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.graph.signature import is_absurd
from clgraph.ops.convolution import convolution_launch, convolution_table
from clgraph.selector.general import REALS, General
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query


@primitive
@frozen
class ConvTranspose(Primitive):
    """``y[n, o, i * stride + k * dilation - pad] += x[n, c, i] * w[c, o, k]``, plus bias.

    Inputs: x ``[N, C, *spatial]``, w ``[C, O / groups, *kernel]``, optional bias ``[O]``.

    Attributes:
        strides, dilations, output_padding: One entry a spatial axis; empty before ``bind``: ones, ones, zeros.
        pads: Elements cut off (before, after) along each spatial axis; empty before ``bind``: none.
        output_shape: Before ``bind``: the spatial sizes of the result, which say the pads.
        auto_pad: Before ``bind``: ONNX's rule for the pads.
    """

    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: Pads = ()
    output_padding: tuple[int, ...] = ()
    groups: int = 1
    output_shape: tuple[int, ...] = ()
    auto_pad: str = ""

    kind: ClassVar[str] = "conv_transpose"
    holds_sizes: ClassVar[bool] = False

    def takes_sizes(self) -> bool:
        return bool(self.auto_pad or self.output_shape)

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        spatial, kernel = inputs[0].shape[2:], inputs[1].shape[2:]
        rank = len(spatial)
        bound = replace(
            self,
            strides=self.strides or (1,) * rank,
            dilations=self.dilations or (1,) * rank,
            output_padding=self.output_padding or (0,) * rank,
            output_shape=(),
            auto_pad="",
        )
        bound = replace(bound, pads=window_pads("", self.pads, spatial, kernel, bound.strides, bound.dilations))
        if len(bound.output_padding) != rank or (self.output_shape and len(self.output_shape) < rank):
            wrong = f"output_padding {self.output_padding} or output_shape {self.output_shape}"
            raise ShapeError(f"{wrong} does not have one entry for each of {rank} spatial axes")
        same = self.auto_pad.startswith("SAME")
        wanted = self.output_shape[-rank:] or tuple(n * s for n, s in zip(spatial, bound.strides, strict=True))
        if self.output_shape or same:
            full = replace(bound, pads=((0, 0),) * rank).sizes(spatial, kernel)
            cut = [max(f - w, 0) for f, w in zip(full, wanted, strict=True)]
            missing = (max(w - f, 0) for f, w in zip(full, wanted, strict=True))
            bound = replace(
                bound, output_padding=tuple(p + m for p, m in zip(bound.output_padding, missing, strict=True))
            )
            upper = self.auto_pad == "SAME_UPPER"
            bound = replace(bound, pads=tuple((c // 2, c - c // 2) if upper else (c - c // 2, c // 2) for c in cut))
        return Bound(bound, tuple(range(len(inputs))))

    def sizes(self, spatial: Shape, kernel: Shape) -> Shape:
        """Return the spatial sizes of the result."""
        rows = zip(spatial, kernel, self.strides, self.dilations, self.pads, self.output_padding, strict=True)
        return tuple((n - 1) * s + (k - 1) * d + 1 + extra - b - a for n, k, s, d, (b, a), extra in rows)

    def lies_side_by_side(self, kernel: Shape) -> bool:
        """Whether, once bound, windows of *kernel* elements meet without overlapping, and all of them is the result."""
        beside = kernel == self.strides and all(d == 1 or k == 1 for d, k in zip(self.dilations, kernel, strict=True))
        return beside and not any(map(any, self.pads)) and not any(self.output_padding)

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, w = inputs[:2]
        if x.rank < 3 or x.rank != w.rank or w.shape[0] != x.shape[1] or self.groups < 1 or x.shape[1] % self.groups:
            raise ShapeError(f"weights {list(w.shape)} in {self.groups} groups do not fit x {list(x.shape)}")
        channels = w.shape[1] * self.groups
        if len(inputs) > 2 and inputs[2].shape != (channels,):
            raise ShapeError(f"the bias requires shape {[channels]}, not {list(inputs[2].shape)}")
        sizes = self.sizes(x.shape[2:], w.shape[2:])
        if min(sizes) < 1:
            raise ShapeError(f"pads {self.pads} leave nothing of the result")
        full = replace(self, pads=((0, 0),) * (x.rank - 2)).sizes(x.shape[2:], w.shape[2:])
        if is_absurd((x.shape[0], channels, *full)):
            raise ShapeError(f"before pads are cut off, the result has the sizes {list(full)}, which no device holds")
        return (x.with_shape((x.shape[0], channels, *sizes)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, w = inputs[:2]
        exact = np.result_type(x.dtype, np.float32)
        n, c, g, spatial, kernel = x.shape[0], x.shape[1], self.groups, x.shape[2:], w.shape[2:]
        outputs = w.shape[1]
        full = replace(self, pads=((0, 0),) * len(spatial)).sizes(spatial, kernel)
        y = np.zeros((n, g * outputs, *full), exact)
        strips = x.astype(exact).reshape(n, g, c // g, prod(x.shape[2:]))
        taps = np.moveaxis(w.astype(exact).reshape(g, c // g, outputs, *kernel), (0, 1, 2), (-3, -2, -1))
        for tap in product(*map(range, kernel)):
            window = tuple(
                slice(t * d, t * d + (size - 1) * s + 1, s)
                for t, d, s, size in zip(tap, self.dilations, self.strides, spatial, strict=True)
            )
            part = taps[tap].swapaxes(-1, -2) @ strips
            y[(slice(None), slice(None), *window)] += part.reshape(n, g * outputs, *spatial)
        kept = tuple(slice(b, size - a) for (b, a), size in zip(self.pads, full, strict=True))
        y = y[(slice(None), slice(None), *kept)]
        if len(inputs) > 2:
            y = y + inputs[2].astype(exact).reshape(-1, *(1 for _ in spatial))
        return (np.ascontiguousarray(y.astype(x.dtype)),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 2.0 * inputs[0].count * prod(inputs[1].shape[1:])

    def reference_seconds(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 1e-5 + 3e-6 * prod(inputs[1].shape[2:])


@onnx("ConvTranspose", since=(1, 11, 22))
def import_conv_transpose(node: OnnxNode) -> Primitive:
    check_kernel_shape(node.attribute("kernel_shape", None), node.constant(1))
    return ConvTranspose(
        tuple(node.attribute("strides", ())),
        tuple(node.attribute("dilations", ())),
        pairs(node.attribute("pads", ())),
        tuple(node.attribute("output_padding", ())),
        node.attribute("group", 1),
        tuple(node.attribute("output_shape", ())),
        node.attribute("auto_pad", ""),
    )


_ASKED = 10
"""Operations that take as long as finding out whether a tap reaches an element."""


@implements(ConvTranspose, name="conv_transpose.ref", serves=Serves(dtypes=REALS, fuses=FUSABLE), general=True)
class ConvTransposeRef(General[ConvTranspose]):
    """One work-item an output element, any number of spatial axes; gathers what reaches it, asking each tap."""

    @classmethod
    def cost(cls, q: Query[ConvTranspose]) -> float:
        asked = q.outputs[0].count * prod(q.own[1].shape[2:]) * _ASKED
        return super().cost(q) + asked / (q.device.flops * q.device.costs.general_compute)

    @classmethod
    def plan(cls, q: Query[ConvTranspose]) -> Plan:
        numbers = convolution_table(q, q.own[1].shape[1], q.own[0].shape[1] // q.primitive.groups)
        return Plan((convolution_launch(q, "conv_transpose/conv_transpose_ref", numbers),))
