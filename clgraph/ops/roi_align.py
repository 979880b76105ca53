"""Regions of an image as small images of one size: ONNX's RoiAlign and MaxRoiPool."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, prod
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
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
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.storage import loaded
from clgraph.selector.views import View


@primitive
@frozen
class RoiAlign(Primitive):
    """Each region (x1, y1, x2, y2) of x ``[N, C, H, W]`` as ``[C, *size]``: means of interpolated samples.

    Inputs: x, regions ``[R, 4]`` and the image of each ``[R]`` (He et al. 2017, Mask R-CNN, section 3).

    Attributes:
        samples: Along each side of a bin; 0 for as many as pixels.
        scale: From the regions' coordinates to pixels.
        half_pixel: A pixel's centre is at 0.5; a region may be smaller than one pixel.
        maximum: Of the samples (each the largest of its four weighted neighbours) instead of the mean.
    """

    size: tuple[int, int] = (1, 1)
    samples: int = 0
    scale: float = 1.0
    half_pixel: bool = True
    maximum: bool = False

    kind: ClassVar[str] = "roi_align"
    slow_reference: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, regions, images = inputs
        if x.rank != 4 or regions.rank != 2 or regions.shape[1] != 4 or images.shape != regions.shape[:1]:
            raise ShapeError(f"regions {regions} of images {images} are none of {x}")
        return (x.with_shape((regions.shape[0], x.shape[1], *self.size)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, regions, images = inputs
        exact = np.result_type(x.dtype, np.float32)
        y = np.empty((len(regions), x.shape[1], *self.size), exact)
        offset = 0.5 if self.half_pixel else 0.0
        for r, (region, image) in enumerate(zip(regions, images, strict=True)):
            x1, y1, x2, y2 = (float(v) * self.scale - offset for v in region)
            lengths = [y2 - y1, x2 - x1] if self.half_pixel else [max(y2 - y1, 1.0), max(x2 - x1, 1.0)]
            lines = []
            for start, length, bins, pixels in zip((y1, x1), lengths, self.size, x.shape[2:], strict=True):
                each = length / bins
                count = self.samples if self.samples > 0 else ceil(min(each, MOST_SAMPLES)) if each > 0 else 0
                places = start + (np.arange(bins * count) + 0.5) * (length / bins / max(count, 1))
                lines.append((count, *_neighbours(places, pixels)))
            pixels = x[int(image)].astype(exact)
            for bin_ in np.ndindex(self.size):
                sides = (_of_bin(*line, i) for line, i in zip(lines, bin_, strict=True))
                y[r, :, *bin_] = self._bin(pixels, *sides)
        return (y.astype(x.dtype),)

    def _bin(self, image: Array, rows: Samples, columns: Samples) -> Array:
        """Return the mean or the maximum of samples, of which those outside the image are zeros."""
        count_y, low_y, high_y, share_y = rows
        count_x, low_x, high_x, share_x = columns
        count, found = count_y * count_x, len(low_y) * len(low_x)
        parts = [
            image[:, line][:, :, column] * (part[:, None] * piece)
            for line, part in ((low_y, 1 - share_y), (high_y, share_y))
            for column, piece in ((low_x, 1 - share_x), (high_x, share_x))
        ]
        if not count:
            return np.zeros(len(image), image.dtype)
        if not self.maximum:
            return np.asarray(np.sum(parts, axis=(0, 2, 3)) / image.dtype.type(count))
        outside = -np.inf if found == count else 0.0
        return np.asarray(np.fmax.reduce(np.array(parts), axis=(0, 2, 3), initial=outside))

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 32.0 * outputs[0].count


MOST_SAMPLES = 4096
"""Along a side of a bin that takes as many as it has pixels."""

Samples = tuple[int, Array, Array, Array]
"""Samples of a bin along an axis; of those inside the image the pixels beside them and the share of the second."""


def _of_bin(count: int, low: Array, high: Array, share: Array, inside: Array, i: int) -> Samples:
    part = slice(i * count, (i + 1) * count)
    kept = inside[part]
    return count, low[part][kept], high[part][kept], share[part][kept]


def _neighbours(places: Array, size: int) -> tuple[Array, Array, Array, Array]:
    """Return the pixels before and behind each place, the share of the second, and whether it counts at all."""
    inside = (places >= -1) & (places <= size)
    at = np.maximum(places, 0)
    low = np.minimum(at.astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    share = np.where(low >= size - 1, 0.0, at - low)
    return low, high, share, inside


@primitive
@frozen
class MaxRoiPool(Primitive):
    """The maximum of each of *size* bins of regions (image, x1, y1, x2, y2) ``[R, 5]`` of x (Girshick 2015)."""

    size: tuple[int, int]
    scale: float = 1.0

    kind: ClassVar[str] = "max_roi_pool"
    slow_reference: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, regions = inputs
        if x.rank != 4 or regions.rank != 2 or regions.shape[1] != 5:
            raise ShapeError(f"regions {regions} are none of {x}")
        return (x.with_shape((regions.shape[0], x.shape[1], *self.size)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, regions = inputs
        y = np.zeros((len(regions), x.shape[1], *self.size), x.dtype)
        for r, region in enumerate(regions):
            x1, y1, x2, y2 = (_nearest(float(np.float32(v) * np.float32(self.scale))) for v in region[1:])
            image = x[int(region[0])]
            spans = [
                [_bin(start, max(end - start + 1, 1), n, i, limit) for i in range(n)]
                for start, end, n, limit in ((y1, y2, self.size[0], x.shape[2]), (x1, x2, self.size[1], x.shape[3]))
            ]
            for i, rows in enumerate(spans[0]):
                for j, columns in enumerate(spans[1]):
                    part = image[:, rows, columns]
                    if part.size:
                        y[r, :, i, j] = part.max((1, 2))
        return (y,)


def _nearest(x: float) -> int:
    """Return the integer nearest to x, of two the one that is further from 0; of int32, 0 for what is no number."""
    x = min(max(0.0 if np.isnan(x) else x, -(2.0**31)), 2.0**31 - 1)
    return int(np.copysign(floor(abs(x) + 0.5), x))


def _bin(start: int, length: int, bins: int, i: int, limit: int) -> slice:
    """Return the pixels of bin i; sizes are floats, as in Fast R-CNN, whose last bin may reach a pixel further."""
    each = np.float32(length) / np.float32(bins)
    first, last = floor(np.float32(i) * each) + start, ceil(np.float32(i + 1) * each) + start
    return slice(min(max(first, 0), limit), min(max(last, 0), limit))


@onnx("RoiAlign", since=(10, 16, 22))
def import_roi_align(node: OnnxNode) -> Primitive:
    half = node.since >= 16 and node.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    return RoiAlign(
        (node.attribute("output_height", 1), node.attribute("output_width", 1)),
        node.attribute("sampling_ratio", 0),
        node.attribute("spatial_scale", 1.0),
        half,
        node.attribute("mode", "avg") == "max",
    )


@onnx("MaxRoiPool", since=(1, 22))
def import_max_roi_pool(node: OnnxNode) -> Primitive:
    height, width = node.attribute("pooled_shape", (1, 1))
    return MaxRoiPool((height, width), node.attribute("spatial_scale", 1.0))


_CHANNELS = 16
"""Of a work-item."""


@implements(
    RoiAlign,
    name="roi_align.ref",
    serves=Serves(dtypes=REALS | {DType.I64}, mixed=True, fuses=FUSABLE),
    general=True,
)
class RoiAlignRef(General[RoiAlign]):
    """One work-item a bin of 16 channels; regions may be floats where x is half."""

    @classmethod
    def further_limits(cls, q: Query[RoiAlign]) -> str | None:
        x, regions, images = q.own
        if images.dtype != DType.I64 or regions.dtype == DType.I64:
            return "reads the regions' images as int64"
        if any(v.dtype != x.dtype for v in (*q.inputs[q.arity :], *q.outputs)):
            return "requires result and operands of the type of x"
        return None if q.own[0].count else "requires an image with pixels"

    @classmethod
    def plan(cls, q: Query[RoiAlign]) -> Plan:
        x, regions, images = q.own
        (y,), f = q.outputs, q.primitive
        flags = [f.samples, int(f.half_pixel), int(f.maximum), x.shape[1]]
        dims = (y.shape[0], -(-y.shape[1] // _CHANNELS), *y.shape[2:])
        where = [regions.origin, *regions.all_pitches, images.origin, *images.all_pitches, x.shape[0]]
        numbers = table(dims, View.of(y), View.of(x), x.shape[2:], where, flags)
        jit = float_jit(y.dtype, y.rank)
        jit = jit.define(**{"REGION": regions.dtype.cl, "LOAD_REGION(p, i)": loaded(regions.dtype)})
        posts = post_arguments(q, post_views(q), y.rank)
        arguments = ("in0", "in1", "in2", "out0", numbers, f.scale, *posts)
        return Plan((launch("roi_align/roi_align_ref", jit, prod(dims), *arguments),))


@implements(MaxRoiPool, name="max_roi_pool.ref", serves=Serves(dtypes=REALS, fuses=FUSABLE), general=True)
class MaxRoiPoolRef(General[MaxRoiPool]):
    """One work-item an element."""

    @classmethod
    def further_limits(cls, q: Query[MaxRoiPool]) -> str | None:
        return None if q.own[0].count else "requires an image with pixels"

    @classmethod
    def plan(cls, q: Query[MaxRoiPool]) -> Plan:
        x, regions = q.own
        (y,) = q.outputs
        numbers = table(
            y.shape, View.of(y), View.of(x), x.shape[:1], x.shape[2:], [regions.origin, *regions.all_pitches]
        )
        arguments = ("in0", "in1", "out0", numbers, q.primitive.scale, *post_arguments(q, post_views(q), y.rank))
        return Plan((launch("max_roi_pool/max_roi_pool_ref", float_jit(y.dtype, y.rank), y.count, *arguments),))
