"""Places of a transformed image's pixels: ONNX's AffineGrid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known_ints
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.matmul import MatMul
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose


@primitive
@frozen
class AffineGrid(Composite):
    """For each pixel of ``[N, C, *spatial]``, the value of input 1, its place ``theta (x, y, 1)`` in -1 ... 1.

    Inputs: theta ``[N, D, D + 1]`` and the size; the result is ``[N, *spatial, D]`` with x first.

    A line of pixels is the sum of what its other coordinates say and of what x says: two small products make all grids,
    the second one with the longest rows that there are.

    Attributes:
        corners: -1 and 1 are the centres of the outermost pixels, else their outer edges.
    """

    corners: bool = False

    kind: ClassVar[str] = "affine_grid"

    def value_slots(self) -> tuple[int, ...]:
        return (1,)

    def compose(self, c: Composition) -> Sequence[str]:
        theta = c.inputs[0]
        spatial = known_ints(c.values, 1, "size")[2:]
        shape, rank = c.layout(theta).shape, len(spatial)
        if shape[1:] != (rank, rank + 1):
            raise ShapeError(f"theta {list(shape)} does not move places in {rank} dimensions")
        *outer, width = spatial
        lines = np.ones((*outer, rank))
        for axis, count in enumerate(outer):
            behind = len(outer) - 1 - axis
            lines[..., behind] = self._places(count).reshape(-1, *(1,) * behind)
        # What each coordinate but x of a line adds to its pixels, and what x and 1 add.
        parts = np.zeros((rank, width, rank + 1))
        parts[np.arange(rank - 1), :, np.arange(1, rank)] = 1
        parts[-1, :, 0], parts[-1, :, -1] = self._places(width), 1
        given = c.layout(theta).dtype
        wide = theta if given.itemsize >= DType.F32.itemsize else c.add(Reorder(DType.F32), theta)
        wide_type = c.layout(wide).dtype.numpy
        turned = c.add(Transpose((0, 2, 1)), wide)
        along = c.add(MatMul(), c.constant(parts.reshape(-1, rank + 1).astype(wide_type)), turned)
        rows = c.add(Reshape((shape[0], rank, width * rank), zero_is_zero=True), along)
        y = c.add(MatMul(), c.constant(lines.reshape(-1, rank).astype(wide_type)), rows)
        y = c.add(Reshape((shape[0], *spatial, rank), zero_is_zero=True), y)
        return (y if wide == theta else c.add(Reorder(given), y),)

    def _places(self, count: int) -> Array:
        if self.corners:
            return np.linspace(-1, 1, count)
        return (np.arange(count) * 2 + 1) / count - 1


@onnx("AffineGrid", since=(20,))
def import_affine_grid(node: OnnxNode) -> Primitive:
    return AffineGrid(bool(node.attribute("align_corners", 0)))
