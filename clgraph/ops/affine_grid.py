"""BufferTable of a transformed image's pixels: ONNX's AffineGrid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known_ints
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose


@primitive
@frozen
class AffineGrid(Composite):
    """For each pixel of ``[N, C, *spatial]``, the value of input 1, its place ``theta (x, y, 1)`` in -1 ... 1.

    Inputs: theta ``[N, D, D + 1]`` and the size; the result is ``[N, *spatial, D]`` with x first.

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
        shape, dtype, rank = c.layout(theta).shape, c.layout(theta).dtype.numpy, len(spatial)
        if shape[1:] != (rank, rank + 1):
            raise ShapeError(f"theta {list(shape)} does not move places in {rank} dimensions")
        places = np.ones((*spatial, rank + 1), dtype)
        for axis, count in enumerate(spatial):
            behind = rank - 1 - axis
            places[..., behind] = self._places(count).reshape(-1, *(1,) * behind)
        turned = c.add(MatMul(), c.constant(places.reshape(-1, rank + 1)), c.add(Transpose((0, 2, 1)), theta))
        return (c.add(Reshape((shape[0], *spatial, rank), zero_is_zero=True), turned),)

    def _places(self, count: int) -> Array:
        if self.corners:
            return np.linspace(-1, 1, count)
        return (np.arange(count) * 2 + 1) / count - 1


@onnx("AffineGrid", since=(20,))
def import_affine_grid(node: OnnxNode) -> Primitive:
    return AffineGrid(bool(node.attribute("align_corners", 0)))
