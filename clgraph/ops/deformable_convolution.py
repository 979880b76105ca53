"""Convolution whose taps are moved by offsets that are data: ONNX's DeformConv."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads, check_kernel_shape, pairs, window_pads, window_sizes
from clgraph.graph.composite import Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, primitive
from clgraph.graph.topology import Inlinable, Topology
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.grid_sample import GridSample
from clgraph.ops.matmul import MatMul
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose

NARROW = frozenset({DType.F16, DType.BF16})


@primitive
@frozen
class DeformableConvolution(Inlinable):
    """``y[n, o, p] = sum w[o, c, k] * mask[n, k, p] * x[n, c, p * stride - pad + k * dilation + offset[n, k, p]]``.

    x is interpolated linearly and 0 outside (Dai et al. 2017; Zhu et al. 2019). Inputs: x ``[N, C, *spatial]``, w
    ``[O, C / groups, *kernel]``, offset ``[N, offset_groups * taps * axes, *out]``, then as *present* says bias ``[O]``
    and mask ``[N, offset_groups * taps, *out]``. On a device it is x read at these places, and a matrix product.

    Attributes:
        strides, dilations, pads: Empty before ``bind``: ones, ones, zeros.
    """

    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: Pads = ()
    groups: int = 1
    offset_groups: int = 1
    present: tuple[str, ...] = ()

    kind: ClassVar[str] = "deformable_convolution"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        spatial, kernel = inputs[0].shape[2:], inputs[1].shape[2:]
        ones = (1,) * len(spatial)
        bound = replace(self, strides=self.strides or ones, dilations=self.dilations or ones)
        pads = window_pads("", self.pads, spatial, kernel, bound.strides, bound.dilations)
        return Bound(replace(bound, pads=pads), tuple(range(len(inputs))))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, w, offset = inputs[:3]
        if x.rank < 3 or w.rank != x.rank or w.shape[1] * self.groups != x.shape[1] or w.shape[0] % self.groups:
            raise ShapeError(f"weights {list(w.shape)} in {self.groups} groups do not fit x {list(x.shape)}")
        kernel = w.shape[2:]
        sizes = window_sizes(x.shape[2:], kernel, self.strides, self.dilations, self.pads)
        moves = self.offset_groups * prod(kernel) * len(kernel)
        if x.shape[1] % self.offset_groups or offset.shape != (x.shape[0], moves, *sizes):
            raise ShapeError(f"offset {list(offset.shape)} is not {[x.shape[0], moves, *sizes]}")
        return (x.with_shape((x.shape[0], w.shape[0], *sizes)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, offset = inputs[:3]
        given = dict(zip(self.present, inputs[3:], strict=True))
        exact = np.result_type(x.dtype, np.float32)
        kernel, spatial, sizes = w.shape[2:], x.shape[2:], offset.shape[2:]
        taps, axes, parts = prod(kernel), len(kernel), self.offset_groups
        moves = offset.reshape(len(x), parts, taps, axes, *sizes).astype(exact)
        mask = given.get("mask", np.ones((), exact))
        mask = np.broadcast_to(
            mask.reshape(len(x), parts, taps, *sizes) if mask.ndim else mask, moves[:, :, :, 0].shape
        )
        columns = np.zeros((len(x), x.shape[1], taps, *sizes), exact)
        each = x.shape[1] // parts
        places = np.indices(sizes)
        for n, part in product(range(len(x)), range(parts)):
            image = x[n, part * each : (part + 1) * each].astype(exact)
            for k, tap in enumerate(product(*map(range, kernel))):
                at = [
                    places[a] * self.strides[a] - self.pads[a][0] + tap[a] * self.dilations[a] + moves[n, part, k, a]
                    for a in range(axes)
                ]
                columns[n, part * each : (part + 1) * each, k] = _read(image, at, spatial) * mask[n, part, k]
        rows = columns.reshape(len(x), self.groups, -1, prod(sizes))
        weights = w.astype(exact).reshape(self.groups, w.shape[0] // self.groups, -1)
        y = np.matmul(weights, rows).reshape(len(x), w.shape[0], *sizes)
        if "bias" in given:
            y = y + given["bias"].astype(exact).reshape(-1, *(1,) * axes)
        return (y.astype(x.dtype),)

    def inline(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Topology:
        bound = self.bind(inputs, values).primitive
        assert isinstance(bound, DeformableConvolution)
        (y,) = bound.infer(inputs)
        c = Composition(inputs, values)
        x, w = c.inputs[:2]
        given = dict(zip(self.present, c.inputs[3:], strict=True))
        batch, channels = inputs[0].shape[:2]
        taps, places, parts = prod(inputs[1].shape[2:]), prod(y.shape[2:]), self.offset_groups
        flat = (taps * places, *(1 for _ in y.shape[3:]))

        def under(name: str, *shape: int) -> str:
            return c.add(Reshape(shape, zero_is_zero=True), name)

        images = under(x, batch * parts, channels // parts, *inputs[0].shape[2:])
        columns = c.add(GridSample(), images, under(bound._places(c, y), batch * parts, *flat, len(flat)))
        if "mask" in given:
            columns = c.add(Eltwise("mul"), columns, under(given["mask"], batch * parts, 1, *flat))
        each, rows = channels // self.groups * taps, y.shape[1] // self.groups
        columns = under(columns, batch, self.groups, each, places)
        product = under(c.add(MatMul(), under(w, self.groups, rows, each), columns), *y.shape)
        if "bias" in given:
            product = c.add(Eltwise("add"), product, under(given["bias"], y.shape[1], *(1 for _ in y.shape[2:])))
        return c.finish(product)

    def _places(self, c: Composition, y: Layout) -> str:
        """Add where GridSample is to read: ``[N * offset_groups, taps * places, axes]`` in -1 ... 1, last axis first.

        Element p of an axis of n is at ``(2 p + 1) / n - 1``.
        """
        (spatial, kernel), sizes = (c.layout(n).shape[2:] for n in c.inputs[:2]), y.shape[2:]
        axes = len(spatial)
        where = np.indices((*kernel, *sizes)).reshape(2 * axes, -1).astype(np.float64)
        still = [
            where[axes + a] * self.strides[a] - self.pads[a][0] + where[a] * self.dilations[a] for a in range(axes)
        ]
        count = np.array(spatial, np.float64)
        start = ((2 * np.stack(still, -1) + 1) / count - 1)[:, ::-1]
        moves = c.add(Reorder(DType.F32), c.inputs[2]) if c.layout(c.inputs[2]).dtype in NARROW else c.inputs[2]
        parts = y.shape[0] * self.offset_groups
        # Rows as long as there are places: the two or three axes come last at the end only.
        moves = c.add(Reshape((parts, prod(kernel), axes, prod(sizes)), zero_is_zero=True), moves)
        moves = c.add(Gather(2), moves, c.constant(np.arange(axes)[::-1].copy()))
        dtype = c.layout(moves).dtype.numpy
        moves = c.add(Eltwise("mul"), moves, c.constant((2 / count)[::-1, None].astype(dtype)))
        apart = start.reshape(prod(kernel), prod(sizes), axes).transpose(0, 2, 1).astype(dtype)
        return c.add(Transpose((0, 1, 3, 2)), c.add(Eltwise("add"), moves, c.constant(apart)))

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 2.0 * outputs[0].count * prod(inputs[1].shape[1:]) + 16.0 * inputs[2].count * inputs[0].shape[1]


def _read(image: Array, at: Sequence[Array], spatial: tuple[int, ...]) -> Array:
    """Return image [C, *spatial] at places between its elements, [C, *out]; 0 beyond its edges."""
    low = [np.floor(a) for a in at]
    total = np.zeros((len(image), *at[0].shape), image.dtype)
    for corner in product((0, 1), repeat=len(at)):
        weight, there = np.ones(at[0].shape, image.dtype), np.ones(at[0].shape, np.bool_)
        places: list[slice | Array] = [slice(None)]
        for c, a, first, size in zip(corner, at, low, spatial, strict=True):
            place = first + c
            inside = (place >= 0) & (place < size)
            weight, there = weight * np.where(inside, 1 - np.abs(a - place), 0), there & inside
            places.append(np.where(inside, place, 0).astype(np.int64))
        total += weight * np.where(there, image[tuple(places)], 0)
    return total


@onnx("DeformConv", since=(19, 22))
def import_deform_conv(node: OnnxNode) -> Sequence[str]:
    check_kernel_shape(node.attribute("kernel_shape", None), node.constant(1))
    present = tuple(n for n, given in zip(("bias", "mask"), node.inputs[3:], strict=False) if given)
    convolution = DeformableConvolution(
        tuple(node.attribute("strides", ())),
        tuple(node.attribute("dilations", ())),
        pairs(node.attribute("pads", ())),
        node.attribute("group", 1),
        node.attribute("offset_group", 1),
        present,
    )
    return node.emit(convolution, *filter(None, node.inputs))
