"""Boxes of images, each resized to one size: ONNX Runtime's CropAndResize, which TensorFlow has by that name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known_ints
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.moment_normalization import in_float32, in_type_of
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.transpose import Transpose
from clgraph.ops.where import Where


@primitive
@frozen
class CropAndResize(Composite):
    """Crops ``[boxes, C, height, width]`` of images ``[N, C, H, W]``; corners are aligned.

    Inputs: images; boxes ``[boxes, 4]``, (y1, x1, y2, x2) in which 1 is the last row or column; the image of each box;
    height and width. What is computed in between is float32.

    Attributes:
        linear: Between the four nearest pixels; else the nearest one, of two equally near ones that further away.
        outside: What stands where a box leaves the image.
    """

    linear: bool = True
    outside: float = 0.0

    kind: ClassVar[str] = "crop_and_resize"

    def value_slots(self) -> tuple[int, ...]:
        return (3,)

    def compose(self, c: Composition) -> Sequence[str]:
        given, boxes, images = c.inputs[:3]
        x, boxes = (in_float32(c, name) for name in (given, boxes))
        shape, sizes = c.layout(x).shape, known_ints(c.values, 3, "crop_size")
        if len(shape) != 4 or c.layout(boxes).shape[1:] != (4,) or len(sizes) != 2 or min(sizes) < 1:
            raise ShapeError(f"{list(shape)} and boxes {list(c.layout(boxes).shape)} give no crops of {list(sizes)}")
        count, channels = c.layout(boxes).shape[0], shape[1]
        rows, columns = (self._places(c, boxes, axis, sizes[axis], shape[2 + axis]) for axis in (0, 1))
        rows, columns = _wide(c, rows, (count, sizes[0], 1)), _wide(c, columns, (count, 1, sizes[1]))
        inside = [self._inside(c, places, size) for places, size in ((rows, shape[2]), (columns, shape[3]))]
        pixels = c.add(Reshape((-1, channels)), c.add(Transpose((0, 2, 3, 1)), x))
        images = _wide(c, c.add(Reorder(DType.I64), images), (count, 1, 1))

        def at(row: str, column: str) -> str:
            y = c.add(Eltwise("add"), _times(c, images, shape[2]), c.add(Reorder(DType.I64), row))
            y = c.add(Eltwise("add"), _times(c, y, shape[3]), c.add(Reorder(DType.I64), column))
            return c.add(Gather(0), pixels, y)

        if self.linear:
            above, left = (c.add(Activation("floor"), p) for p in (rows, columns))
            below, right = (c.add(Activation("ceil"), p) for p in (rows, columns))
            down, across = (
                c.add(Reshape((*c.layout(p).shape, 1)), c.add(Eltwise("sub"), p, whole))
                for p, whole in ((rows, above), (columns, left))
            )
            between = [_lerp(c, at(row, left), at(row, right), across) for row in (above, below)]
            y = _lerp(c, between[0], between[1], down)
        else:
            half = c.constant(np.array(0.5, np.float32))
            nearest = (c.add(Activation("floor"), c.add(Eltwise("add"), p, half)) for p in (rows, columns))
            y = at(*nearest)
        whole = c.add(Reshape((count, *sizes, 1)), c.add(Eltwise("and"), *inside))
        y = c.add(Where(), whole, y, c.constant(np.array(self.outside, np.float32)))
        return (in_type_of(c, c.add(Transpose((0, 3, 1, 2)), y), given),)

    def _places(self, c: Composition, boxes: str, axis: int, count: int, size: int) -> str:
        """Return the rows or columns ``[boxes, count]`` that a crop's are of an image with *size* of them."""
        first, last = (c.add(Slice((i,), (i + 1,), axes=(1,)), boxes) for i in (axis, axis + 2))
        if count == 1:
            return c.add(Activation("linear", 0.5 * (size - 1)), c.add(Eltwise("add"), first, last))
        step = c.add(Activation("linear", (size - 1) / (count - 1)), c.add(Eltwise("sub"), last, first))
        steps = c.add(Eltwise("mul"), step, c.constant(np.arange(count, dtype=np.float32)))
        return c.add(Eltwise("add"), c.add(Activation("linear", float(size - 1)), first), steps)

    def _inside(self, c: Composition, places: str, size: int) -> str:
        low = c.add(Eltwise("greater_equal"), places, c.constant(np.zeros((), np.float32)))
        high = c.add(Eltwise("less_equal"), places, c.constant(np.array(size - 1, np.float32)))
        return c.add(Eltwise("and"), low, high)


def _wide(c: Composition, x: str, shape: tuple[int, int, int]) -> str:
    return c.add(Reshape(shape, zero_is_zero=True), x)


def _times(c: Composition, x: str, factor: int) -> str:
    return c.add(Eltwise("mul"), x, c.constant(np.array(factor, np.int64)))


def _lerp(c: Composition, a: str, b: str, part: str) -> str:
    return c.add(Eltwise("add"), a, c.add(Eltwise("mul"), c.add(Eltwise("sub"), b, a), part))


@onnx("CropAndResize", since=(1,), domain=MICROSOFT)
def import_crop_and_resize(node: OnnxNode) -> Primitive:
    mode = node.attribute("mode", "bilinear")
    if mode not in ("bilinear", "nearest"):
        raise node.unsupported(f"mode is bilinear or nearest, not {mode!r}")
    return CropAndResize(mode == "bilinear", node.attribute("extrapolation_value", 0.0))
